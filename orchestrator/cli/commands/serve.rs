//! `serve`

use std::fs::File;
use std::io::Read as _;
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;

use ralph_orchestrator_assembly::error::{CommandError, exit};
use ralph_orchestrator_assembly::serving;
use ralph_orchestrator_assembly::user_folders::{cache_home, variables};
use ralph_orchestrator_terminal::block_on::block_on;
use ralph_orchestrator_terminal::output;
use ralph_orchestrator_web::{Access, Secret, serve as serve_runs};
use tokio::signal::unix::{SignalKind, signal};

use crate::web::UserRuns;

#[derive(Debug, clap::Args)]
pub(crate) struct ServeArgs {
    /// Address to listen on; port 0 takes a free one
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:7717")]
    pub(crate) listen: SocketAddr,
    /// Allow steering, answers, pauses, limits and stops
    #[arg(long)]
    pub(crate) control: bool,
    /// Accept other addresses and names than this machine's, for a proxy that sees to TLS
    #[arg(long, requires = "passphrase_file")]
    pub(crate) behind_proxy: bool,
    /// File with a passphrase that lets people and programs in, 16 characters at least
    #[arg(long, value_name = "FILE")]
    pub(crate) passphrase_file: Option<PathBuf>,
}

/// The largest file of a passphrase, in bytes.
const LARGEST_PASSPHRASE: u64 = 4096;

pub(crate) fn serve(args: &ServeArgs) -> Result<u8, CommandError> {
    if !args.listen.ip().is_loopback() && !args.behind_proxy {
        let text =
            format!("{} is reached by other machines, and nothing is encrypted", args.listen);
        return Err(CommandError::user(text).hinted(
            "listen on 127.0.0.1, or put a proxy with TLS before it: `--behind-proxy \
             --passphrase-file FILE`",
        ));
    }
    let passphrase = args.passphrase_file.as_deref().map(read_passphrase).transpose()?;
    let listener = TcpListener::bind(args.listen).map_err(|error| {
        CommandError::user(format!("cannot listen on {}: {error}", args.listen))
            .hinted("`--listen 127.0.0.1:0` takes a free port")
    })?;
    let address = listener.local_addr()?;
    // Without it the port is open to agents in sandboxes, whose controls are refused all the same.
    let _recorded = serving::record_port(&cache_home(&variables()), address.port()).ok();
    let announce = move |token: &str| output::result(&format!("http://{address}/#token={token}"));
    let access = match passphrase {
        Some(passphrase) if args.behind_proxy => {
            Access::behind_proxy(address, passphrase, announce)
        }
        passphrase => Access::on_loopback(address, passphrase, announce),
    };
    let access = access.map_err(|error| CommandError::unavailable(error.to_string()))?;
    let may = if args.control { "shows and controls" } else { "shows" };
    output::info(&format!(
        "{may} the runs of this user; an address lets one browser in, then the next is printed; Ctrl-C \
         ends it"
    ));
    let runs = Arc::new(UserRuns::default());
    let read = Arc::clone(&runs);
    // Nobody waits for its end, and requests do the same if there is no thread for it.
    drop(thread::Builder::new().name("runs".to_owned()).spawn(move || read.read_ahead()));
    let served = async {
        // Also where whoever started it had it ignore them.
        let (mut interrupt, mut terminate) =
            (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
        tokio::select! {
            served = serve_runs(listener, access, args.control, runs) => {
                served.map_err(CommandError::internal)
            }
            _ = interrupt.recv() => Ok(()),
            _ = terminate.recv() => Ok(()),
        }
    };
    block_on(served)?;
    Ok(exit::OK)
}

fn read_passphrase(file: &Path) -> Result<Secret, CommandError> {
    let mut text = String::new();
    File::open(file)
        .and_then(|opened| opened.take(LARGEST_PASSPHRASE).read_to_string(&mut text))
        .map_err(|error| CommandError::user(format!("{}: {error}", file.display())))?;
    Secret::passphrase(&text)
        .map_err(|error| CommandError::user(format!("{}: {error}", file.display())))
}
