//! `interrex debug bundle`: one archive for whoever is to help.

use std::path::{Path, PathBuf};

use serde_json::json;

use super::{collect::Collected, redact::redact};
use crate::{
    config::File,
    connect::Connect,
    exit::{Done, Exit, Failure},
    output,
};

const EXAMPLES: &str = "\
Examples:
  interrex debug bundle                                         # interrex-debug.tar in this directory
  interrex debug bundle --file /tmp/b.tar --logs /var/log/interrex
  interrex debug bundle --logs .interrex-dev/logs --deadline 5s

In it: what the cluster says of itself (members, drivers, applications, workers, the newest events), health and metrics \
of every master and of up to 50 agents, the configuration file, and logs. Values of environments and properties, and \
whatever is called a secret, are left out; look through it all the same before you hand it on. What could not be had \
is named in bundle.json: it works without a leader, too.";

/// Options of `interrex debug bundle`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct BundleArgs {
    /// Where to write it; must not exist
    #[arg(long, value_name = "FILE", default_value = "interrex-debug.tar")]
    file: PathBuf,
    /// Take along the newest logs of this directory
    #[arg(long, value_name = "DIR")]
    logs: Option<PathBuf>,
    #[command(flatten)]
    connect: Connect,
}

/// Collects, and writes the archive.
pub(super) async fn run(args: BundleArgs, config: Option<&File>) -> Done {
    let writing = || format!("writing {}", args.file.display());
    // First, so that nothing is collected in vain.
    let out = std::fs::File::create_new(&args.file).map_err(|e| Failure::io(&writing(), &e))?;
    let client = args.connect.client()?;
    let mut collected = Collected::default();
    collected.ask(&client).await;
    if let Some(config) = config {
        let mut value = json!(config.table);
        redact(&mut value);
        collected.json("config.json", &value);
    }
    if let Some(folder) = &args.logs {
        collected.logs(folder);
    }
    let now = interrex_proto::clock::now_ms();
    let about = json!({
        "made_by": format!("interrex {}", env!("CARGO_PKG_VERSION")),
        "made_at_ms": now,
        "masters": args.connect.masters,
        "missing": collected.missing,
    });
    collected.json("bundle.json", &about);
    pack(out, &collected.files, now / 1000).map_err(|e| Failure::io(&writing(), &e))?;
    say(&args.file, &collected);
    Ok(Exit::Ok)
}

fn pack(out: std::fs::File, files: &[(String, Vec<u8>)], made_at: u64) -> std::io::Result<()> {
    let mut archive = tar::Builder::new(out);
    for (path, bytes) in files {
        let mut header = tar::Header::new_gnu();
        header.set_size(bytes.len() as u64);
        header.set_mode(0o600);
        header.set_mtime(made_at);
        archive.append_data(
            &mut header,
            Path::new("interrex-debug").join(path),
            bytes.as_slice(),
        )?;
    }
    archive.into_inner()?.sync_all()
}

fn say(file: &Path, collected: &Collected) {
    output::say(&format!(
        "{}: {} files",
        file.display(),
        collected.files.len()
    ));
    for missing in &collected.missing {
        output::say(&format!("missing: {missing}"));
    }
}
