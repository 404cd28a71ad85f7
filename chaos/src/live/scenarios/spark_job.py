"""One small job after the other on one application, until a file says that it is enough. Each tells its result.

Run by `interrex chaos live --scenario spark-job`, with the directory for its words as its argument.
"""
import json
import os
import sys
import time

from pyspark import SparkConf, SparkContext

folder = sys.argv[1]
sc = SparkContext(conf=SparkConf())
cluster = sc._jsc.sc()
told = open(os.path.join(folder, "steps.jsonl"), "a")


def executors():
    return sorted(i for i in cluster.getExecutorIds().mkString(",").split(",") if i)


def tell(**words):
    told.write(json.dumps(words) + "\n")
    told.flush()


step = 0
while not os.path.exists(os.path.join(folder, "enough")):
    total = sc.parallelize(range(1000), 4).map(lambda x, s=step: x + s).sum()
    tell(step=step, sum=int(total), executors=executors())
    step += 1
    time.sleep(0.05)
sc.stop()
tell(stopped=True)
