//! Custom resources as a program meets them: variables, and a file in Spark's format.
//!
//! The file is what Spark's `--resourcesFile` reads, so a Spark executor can be handed its path as it is.

use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
};

use serde::Serialize;

use crate::process::{Launch, WorkKey};

/// The file's name in the work directory of the driver or executor.
pub(super) const FILE: &str = "resources.json";

/// One entry of the file. Spark: `ResourceAllocation`.
#[derive(Debug, Serialize)]
struct Allocation<'launch> {
    id: AllocationId<'launch>,
    addresses: &'launch [String],
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct AllocationId<'launch> {
    component_name: &'static str,
    resource_name: &'launch str,
}

/// Writes the file of a launch into its directory, which must exist; `None` where it has no custom resources.
///
/// # Errors
/// As the file system says.
pub(super) fn write(launch: &Launch, directory: &Path) -> io::Result<Option<PathBuf>> {
    if launch.resources.is_empty() {
        return Ok(None);
    }
    let component_name = match launch.key {
        WorkKey::Driver { .. } => "spark.driver",
        WorkKey::Executor { .. } => "spark.executor",
    };
    let content: Vec<Allocation<'_>> = launch
        .resources
        .iter()
        .map(|(resource_name, addresses)| Allocation {
            id: AllocationId {
                component_name,
                resource_name,
            },
            addresses,
        })
        .collect();
    // Absolute: the program's own directory is not the agent's.
    let path = std::path::absolute(directory.join(FILE))?;
    fs::write(&path, serde_json::to_vec(&content)?)?;
    Ok(Some(path))
}

/// `INTERREX_RESOURCE_<NAME>=a,b` for each resource. What cannot be in the name of a variable becomes `_`.
pub(super) fn variables(
    resources: &BTreeMap<String, Vec<String>>,
) -> impl Iterator<Item = (String, String)> + '_ {
    resources.iter().map(|(name, addresses)| {
        let name: String = name
            .chars()
            .map(|letter| match letter {
                'a'..='z' | 'A'..='Z' | '0'..='9' => letter.to_ascii_uppercase(),
                _ => '_',
            })
            .collect();
        (format!("INTERREX_RESOURCE_{name}"), addresses.join(","))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn launch(key: WorkKey) -> Launch {
        Launch {
            key,
            name: String::new(),
            command: interrex_proto::v1::CommandLine::default(),
            epoch: 1,
            cores: 1,
            memory_mib: 1,
            resources: BTreeMap::from([
                ("fpga-x".to_owned(), vec!["f0".to_owned()]),
                ("gpu".to_owned(), vec!["0".to_owned(), "1".to_owned()]),
            ]),
            masters: Vec::new(),
            resource_profile: 0,
            lease: None,
            trace: None,
        }
    }

    #[test]
    fn the_file_is_what_spark_reads() {
        let directory = tempfile::tempdir().unwrap();
        let written = write(&launch(WorkKey::executor("a1", 1)), directory.path());
        let path = written.unwrap().unwrap();
        let expected = concat!(
            r#"[{"id":{"componentName":"spark.executor","resourceName":"fpga-x"},"addresses":["f0"]},"#,
            r#"{"id":{"componentName":"spark.executor","resourceName":"gpu"},"addresses":["0","1"]}]"#
        );
        assert_eq!(fs::read_to_string(&path).unwrap(), expected);
        write(&launch(WorkKey::driver("d1", 1)), directory.path()).unwrap();
        let driver = fs::read_to_string(&path).unwrap();
        assert!(driver.contains("spark.driver"), "{driver}");
    }

    #[test]
    fn without_custom_resources_there_is_no_file() {
        let directory = tempfile::tempdir().unwrap();
        let plain = Launch {
            resources: BTreeMap::new(),
            ..launch(WorkKey::driver("d1", 1))
        };
        assert_eq!(write(&plain, directory.path()).unwrap(), None);
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
    }

    #[test]
    fn variables_are_named_after_the_resource() {
        let found: BTreeMap<_, _> =
            variables(&launch(WorkKey::driver("d1", 1)).resources).collect();
        let expected = [
            ("INTERREX_RESOURCE_FPGA_X", "f0"),
            ("INTERREX_RESOURCE_GPU", "0,1"),
        ];
        assert_eq!(
            found,
            expected
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .into()
        );
    }
}
