"""One action after another; before each but the first it waits for a file that says so."""
import argparse
import os
import time

from pyspark import SparkConf, SparkContext, TaskContext

options = argparse.ArgumentParser()
options.add_argument("folder")
options.add_argument("name")
options.add_argument("steps", type=int)
options.add_argument("--ask", action="store_true", help="ask for executors, and give one back")
options.add_argument("--gpus", action="store_true", help="tell which addresses of gpu tasks have")
options.add_argument("--pause", type=float, default=0, help="seconds that each task takes")
given = options.parse_args()
pause = given.pause
sc = SparkContext(conf=SparkConf())


def tell(what, words):
    path = os.path.join(given.folder, "%s.%s" % (given.name, what))
    with open(path + ".part", "w") as file:
        file.write(words)
    os.rename(path + ".part", path)


def added(step):
    def work(numbers):
        time.sleep(pause)
        return [number + step for number in numbers]

    return work


tell("id", sc.applicationId)
tell("master", sc.master)
for step in range(given.steps):
    while step > 0 and not os.path.exists(os.path.join(given.folder, "go.%d" % step)):
        time.sleep(0.1)
    tell("sum.%d" % step, str(sc.parallelize(range(1000), 4).mapPartitions(added(step)).sum()))
    if given.gpus:
        gpus = sc.parallelize(range(2), 2).map(lambda _: TaskContext.get().resources()["gpu"].addresses[0])
        tell("gpus.%d" % step, ",".join(sorted(set(gpus.collect()))))
if given.ask:
    cluster = sc._jsc.sc()
    tell("asked", str(cluster.requestExecutors(1)))
    running = [i for i in cluster.getExecutorIds().mkString(",").split(",") if i]
    tell("killed", str(cluster.killExecutor(running[0])))
sc.stop()
tell("end", "stopped")
