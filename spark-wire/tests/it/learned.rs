//! Serial version UIDs as the JVM computes them: of Java's own compiler, and of real installations of Spark.

use std::{
    collections::BTreeMap,
    fs,
    io::Write,
    path::{Path, PathBuf},
    process::Command,
};

use interrex_spark_wire::learn::{LearnError, learn};
use serde_json::Value;

use crate::support::{dictionary, folder};

/// Where installations of Spark are, separated by colons.
pub(crate) const HOMES: &str = "INTERREX_SPARK_HOMES";

/// A name, and bytes.
type Entry<'a> = (&'a str, Vec<u8>);

/// A folder that looks like an installation, with these jars.
fn home(jars: &[(&str, &[Entry<'_>])]) -> tempfile::TempDir {
    let home = tempfile::tempdir().expect("a folder");
    fs::create_dir(home.path().join("jars")).expect("a folder");
    for (name, entries) in jars {
        let file = fs::File::create(home.path().join("jars").join(name)).expect("a file");
        let mut jar = zip::ZipWriter::new(file);
        for (entry, bytes) in *entries {
            let options = zip::write::SimpleFileOptions::default();
            jar.start_file(*entry, options).expect("an entry");
            jar.write_all(bytes).expect("its bytes");
        }
        jar.finish().expect("a jar");
    }
    home
}

#[test]
fn what_is_no_installation_is_refused_by_name() {
    let nowhere = learn(Path::new("/nonexistent/spark")).expect_err("no folder");
    assert!(matches!(&nowhere, LearnError::Folder { .. }), "{nowhere}");
    let empty = home(&[]);
    let none = learn(empty.path()).expect_err("no jars");
    assert!(
        none.to_string().contains("is it an installation of Spark?"),
        "{none}"
    );
    let hollow = home(&[
        ("spark-core_2.13-9.9.jar", &[]),
        ("scala-library-2.13.jar", &[]),
    ]);
    let hollow = learn(hollow.path()).expect_err("no classes");
    assert!(matches!(&hollow, LearnError::NoClass { .. }), "{hollow}");
    let garbage = home(&[
        (
            "spark-core_2.13-9.9.jar",
            &[("scala/Option.class", b"\xca\xfe\xba\xbe garbage".to_vec())],
        ),
        ("scala-library-2.13.jar", &[]),
    ]);
    let garbage = learn(garbage.path()).expect_err("no class file");
    assert!(matches!(&garbage, LearnError::Class { .. }), "{garbage}");
}

/// Classes that together have everything that counts for a UID.
const SOURCE: &str = r#"
package scala;
import java.io.*;
public class Option implements Serializable, Comparable<Option> {
    static int counter = Integer.getInteger("x", 1);
    private static final String HIDDEN = "h";
    protected transient int skipped;
    private transient int hidden;
    volatile long wide; boolean flag; Object thing; int[] numbers; String[][] table;
    public Option() {}
    private Option(int x) { hidden = x; }
    protected Option(String text, int[] more) { this(1); }
    public synchronized strictfp double compute(Object a, String[] b) throws IOException { return 1; }
    public int compareTo(Option o) { return 0; }
    private void writeObject(ObjectOutputStream out) throws IOException { out.defaultWriteObject(); }
    public static void main(String[] names) throws Exception {
        for (String name : names) {
            ObjectStreamClass c = ObjectStreamClass.lookup(Class.forName(name));
            System.out.print(name + " " + String.format("%016x", c.getSerialVersionUID()));
            for (ObjectStreamField f : c.getFields())
                System.out.print(" " + f.getName() + ":" + (f.isPrimitive() ? "" + f.getTypeCode() : f.getTypeString()));
            System.out.println();
        }
    }
}
class Some extends Option { private static final long serialVersionUID = 1234L; int value; }
abstract class Tuple2 implements Serializable { protected abstract void f(); interface Inner extends Serializable { int g(); } }
class Enumeration implements Serializable { static class Value implements Serializable { Runnable r = () -> counterless(); static void counterless() {} } private class Val implements Serializable {} }
"#;

#[test]
fn uids_are_those_of_the_jvm() {
    let folder = tempfile::tempdir().expect("a folder");
    let source = folder.path().join("Option.java");
    fs::write(&source, SOURCE).expect("a file");
    let compiled = Command::new("javac")
        .arg("-d")
        .arg(folder.path())
        .arg(&source)
        .output();
    let Ok(compiled) = compiled else {
        println!("skipped: there is no javac here");
        return;
    };
    assert!(
        compiled.status.success(),
        "{}",
        String::from_utf8_lossy(&compiled.stderr)
    );
    let names = [
        "scala.Option",
        "scala.Some",
        "scala.Enumeration",
        "scala.Enumeration$Value",
        "scala.Enumeration$Val",
    ];
    let asked = Command::new("java")
        .arg("-cp")
        .arg(folder.path())
        .arg("scala.Option")
        .args(names)
        .output();
    let asked = asked.expect("a JVM beside the compiler");
    let truth = String::from_utf8(asked.stdout).expect("text");
    assert_eq!(
        truth.lines().count(),
        names.len(),
        "{}",
        String::from_utf8_lossy(&asked.stderr)
    );

    let class = |name: &str| {
        let file = format!("{}.class", name.replace('.', "/"));
        let bytes = fs::read(folder.path().join(&file)).expect("a class file");
        (file, bytes)
    };
    let mut classes: Vec<_> = names.iter().map(|n| class(n)).collect();
    // Without this one the folder would not count as Spark.
    let register = "org/apache/spark/deploy/DeployMessages$RegisterApplication";
    classes.push((format!("{register}.class"), compile_marker(folder.path())));
    let entries: Vec<Entry<'_>> = classes
        .iter()
        .map(|(n, b)| (n.as_str(), b.clone()))
        .collect();
    let home = home(&[
        ("spark-core_2.13-9.9.9.jar", &[]),
        ("scala-library-9.jar", &entries),
    ]);
    let learned = learn(home.path()).expect("an installation");
    assert!(learned.line.starts_with("9.9.9+2.13."));
    for line in truth.lines() {
        let mut words = line.split(' ');
        let name = words.next().expect("a name");
        let info = learned.class(name).unwrap_or_else(|| panic!("no {name}"));
        let mut ours = vec![format!("{:016x}", info.suid)];
        ours.extend(info.fields.iter().map(|f| format!("{}:{}", f.0, f.1)));
        assert_eq!(ours, words.collect::<Vec<_>>(), "{name}");
    }
    assert_eq!(learned.class("scala.Option").expect("it").flags, 3);
    assert_eq!(
        learned.class("scala.Some").expect("it").parent.as_deref(),
        Some("scala.Option")
    );
}

fn compile_marker(folder: &Path) -> Vec<u8> {
    let source = folder.join("DeployMessages.java");
    let text = "package org.apache.spark.deploy; class DeployMessages { static class RegisterApplication implements java.io.Serializable {} }";
    fs::write(&source, text).expect("a file");
    let done = Command::new("javac")
        .arg("-d")
        .arg(folder)
        .arg(&source)
        .status();
    assert!(done.expect("javac").success());
    let file = "org/apache/spark/deploy/DeployMessages$RegisterApplication.class";
    fs::read(folder.join(file)).expect("a class file")
}

/// The descriptors that a JVM printed, for the installation's version.
fn printed(home: &Path) -> Option<(String, BTreeMap<String, Value>)> {
    let jars = fs::read_dir(home.join("jars")).ok()?.flatten();
    let names = jars.map(|e| e.file_name().to_string_lossy().into_owned());
    let core = names.into_iter().find(|n| n.starts_with("spark-core_"))?;
    let version = core.strip_suffix(".jar")?.rsplit('-').next()?.to_owned();
    let file = folder("descriptors").join(format!("spark-{version}.json"));
    let text = fs::read_to_string(file).ok()?;
    Some((version, serde_json::from_str(&text).expect("JSON")))
}

#[test]
fn an_installation_of_spark_is_learned_as_its_jvm_sees_it() {
    let homes = std::env::var(HOMES).unwrap_or_default();
    if homes.is_empty() {
        println!("skipped: {HOMES} names no installations of Spark");
        return;
    }
    for home in homes.split(':').map(PathBuf::from) {
        let learned = learn(&home).expect("an installation");
        let Some((version, printed)) = printed(&home) else {
            let line = &learned.line;
            assert!(
                learned.is_learned(),
                "Spark {line} is built in, but no descriptors are kept"
            );
            println!("Spark {line}: learned; no descriptors to compare are kept here");
            continue;
        };
        let line = version.rsplit_once('.').expect("a version").0;
        let known = dictionary(line);
        let names = learned.classes.keys().chain(known.classes.keys());
        let differ = |name: &&String| learned.class(name) != known.class(name);
        for name in names.filter(differ) {
            let (found, wanted) = (learned.class(name), known.class(name));
            println!("Spark {version}: {name} is {found:?}, built in is {wanted:?}");
        }
        assert_eq!(learned.line, line, "{version}");
        assert_eq!(&learned, dictionary(line), "{version}");
        let mut compared = 0;
        for (name, class) in &learned.classes {
            let Some(truth) = printed.get(name) else {
                assert!(name.starts_with("java."), "{name}");
                continue;
            };
            compared += 1;
            assert_eq!(
                truth["suid"],
                format!("{:016x}", class.suid),
                "{version} {name}"
            );
            assert_eq!(truth["flags"], class.flags, "{version} {name}");
            assert_eq!(
                truth["super"].as_str(),
                class.parent.as_deref(),
                "{version} {name}"
            );
            let fields = serde_json::to_value(&class.fields).expect("JSON");
            assert_eq!(truth["fields"], fields, "{version} {name}");
        }
        assert!(compared > 50, "{version}: only {compared} classes");
        println!("Spark {version}: {compared} classes as the JVM sees them");
    }
}
