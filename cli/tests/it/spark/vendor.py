"""Makes a build of Spark that nobody knows out of an installation: the same, but for a name in its classes.

What is called otherwise are methods with the defaults of copy(), in the classes and where they are called, so that all works as
before; but every case class has another serial version UID. Everything else is linked to.
"""
import os
import sys
import zipfile

OLD, NEW = b"copy$default$", b"copy$defaulT$"
source, target = sys.argv[1:]


def link(name):
    os.symlink(os.path.join(source, name), os.path.join(target, name))


os.makedirs(os.path.join(target, "jars"))
for name in os.listdir(source):
    if name != "jars":
        link(name)
for jar in os.listdir(os.path.join(source, "jars")):
    path = os.path.join("jars", jar)
    if not jar.startswith("spark-core_"):
        link(path)
        continue
    changed = 0
    with zipfile.ZipFile(os.path.join(source, path)) as old:
        with zipfile.ZipFile(os.path.join(target, path), "w") as new:
            for entry in old.infolist():
                content = old.read(entry)
                if entry.filename.endswith(".class"):
                    changed += content.count(OLD)
                    content = content.replace(OLD, NEW)
                new.writestr(entry, content, zipfile.ZIP_STORED)
    assert changed, jar
