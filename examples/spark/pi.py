"""Estimates pi, a second's work at a time, for as many seconds as its argument says."""
import random
import sys
import time

from pyspark import SparkConf, SparkContext

POINTS = 200_000


def inside(_):
    x, y = random.random(), random.random()
    return 1 if x * x + y * y < 1 else 0


seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 30
sc = SparkContext(conf=SparkConf().setAppName("pi"))
print("application", sc.applicationId, flush=True)
hits, points, end = 0, 0, time.time() + seconds
while True:
    hits += sc.parallelize(range(POINTS), 4).map(inside).sum()
    points += POINTS
    print("pi is about", 4 * hits / points, "after", points, "points", flush=True)
    if time.time() >= end:
        break
sc.stop()
