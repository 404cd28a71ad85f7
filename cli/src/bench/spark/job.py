"""A job in steps, of as many tasks each; says what it does, a line each."""
import sys
import time

from pyspark import SparkConf, SparkContext

steps, tasks, seconds = int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])


def work(numbers):
    time.sleep(seconds)
    return [sum(numbers)]


sc = SparkContext(conf=SparkConf())
print("application", sc.applicationId, flush=True)
for step in range(steps):
    sc.parallelize(range(1000), tasks).mapPartitions(work).sum()
    print("step", step, flush=True)
sc.stop()
