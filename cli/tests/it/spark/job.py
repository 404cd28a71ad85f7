"""One action after another; before each but the first it waits for a file that says so."""
import os
import sys
import time

from pyspark import SparkConf, SparkContext

folder, name, steps = sys.argv[1], sys.argv[2], int(sys.argv[3])
sc = SparkContext(conf=SparkConf())


def tell(what, words):
    path = os.path.join(folder, "%s.%s" % (name, what))
    with open(path + ".part", "w") as file:
        file.write(words)
    os.rename(path + ".part", path)


tell("id", sc.applicationId)
for step in range(steps):
    while step > 0 and not os.path.exists(os.path.join(folder, "go.%d" % step)):
        time.sleep(0.1)
    tell("sum.%d" % step, str(sc.parallelize(range(1000), 4).map(lambda x: x + step).sum()))
if len(sys.argv) > 4:
    cluster = sc._jsc.sc()
    tell("asked", str(cluster.requestExecutors(1)))
    running = [i for i in cluster.getExecutorIds().mkString(",").split(",") if i]
    tell("killed", str(cluster.killExecutor(running[0])))
sc.stop()
tell("end", "stopped")
