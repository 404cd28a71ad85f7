"""Tells which addresses of `gpu` its tasks have: those of the application, then those of a profile of one stage."""
import os
import sys
import time

from pyspark import SparkConf, SparkContext, TaskContext
from pyspark.resource import ExecutorResourceRequests, ResourceProfileBuilder, TaskResourceRequests

folder, name = sys.argv[1:3]
sc = SparkContext(conf=SparkConf())


def tell(what, words):
    path = os.path.join(folder, "%s.%s" % (name, what))
    with open(path + ".part", "w") as file:
        file.write(words)
    os.rename(path + ".part", path)


def addresses(_):
    task = TaskContext.get()
    return [",".join(task.resources()["gpu"].addresses)]


tell("id", sc.applicationId)
found = sc.parallelize(range(4), 4).mapPartitions(addresses).distinct().collect()
tell("default", " ".join(sorted(found)))
executors = ExecutorResourceRequests().cores(1).memory("600m").resource("gpu", 2)
tasks = TaskResourceRequests().cpus(1).resource("gpu", 2)
profile = ResourceProfileBuilder().require(executors).require(tasks).build
found = sc.parallelize(range(2), 2).withResources(profile).mapPartitions(addresses).distinct().collect()
tell("stage", " ".join(sorted(found)))
while not os.path.exists(os.path.join(folder, "go.1")):
    time.sleep(0.1)
sc.stop()
tell("end", "stopped")
