//! Generates the messages and services from `proto/interrex/v1`.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let out = std::path::PathBuf::from(std::env::var("OUT_DIR")?);
    tonic_prost_build::configure()
        // Maps are ordered, so that encoding is deterministic (fingerprints, records, simulation).
        .btree_map(".")
        // The command line prints these types as JSON; nothing is renamed on the way.
        .type_attribute(".", "#[derive(serde::Serialize, serde::Deserialize)]")
        .file_descriptor_set_path(out.join("interrex.bin"))
        .compile_protos(
            &[
                "proto/interrex/v1/common.proto",
                "proto/interrex/v1/control.proto",
                "proto/interrex/v1/session.proto",
                "proto/interrex/v1/raft.proto",
                "proto/interrex/v1/record.proto",
                "proto/interrex/v1/snapshot.proto",
            ],
            &["proto"],
        )?;
    Ok(())
}
