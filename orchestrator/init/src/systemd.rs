//! `init --systemd`: a unit of the user's systemd that runs a configuration.

use std::fs::{self, OpenOptions};
use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};

use ralph_orchestrator_assembly::error::{CommandError, exit};
use ralph_orchestrator_assembly::user_folders;
use ralph_orchestrator_store::Disk;
use ralph_orchestrator_terminal::output;
use ralph_orchestrator_workspace::state_dir_name;

/// Writes the unit, and says how it is started.
pub(crate) fn write(file: &Path, force: bool) -> Result<u8, CommandError> {
    let config = file.canonicalize().map_err(|error| {
        CommandError::user(format!("{}: {error}", file.display()))
            .hinted("`ralph-orchestrator init` writes a configuration")
    })?;
    let folder = config.parent().unwrap_or(Path::new("/"));
    let program = std::env::current_exe()?;
    let vars = user_folders::variables();
    let path = vars.get("PATH").map_or("", String::as_str);
    let text = unit(&program, &config, folder, path)?;
    let name =
        format!("ralph-orchestrator-{}.service", state_dir_name(folder, Some(&config), None));
    let units = user_folders::config_home(&vars).join("systemd/user");
    let failed = |path: &Path, error: &std::io::Error| {
        CommandError::user(format!("cannot write {}: {error}", path.display()))
    };
    fs::create_dir_all(&units).map_err(|error| failed(&units, &error))?;
    let unit = units.join(&name);
    if force {
        Disk::default().write_atomically(&unit, text.as_bytes(), 0o644)?;
    } else {
        let mut options = OpenOptions::new();
        match options.write(true).create_new(true).open(&unit) {
            Ok(mut open) => {
                open.write_all(text.as_bytes()).map_err(|error| failed(&unit, &error))?;
            }
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                return Err(CommandError::user(format!("{} already exists", unit.display()))
                    .hinted("`init --systemd --force` overwrites it"));
            }
            Err(error) => return Err(failed(&unit, &error)),
        }
    }
    let environment = user_folders::config_home(&vars).join("ralph-orchestrator/environment");
    output::result(&format!("wrote {}", unit.display()));
    output::result("next:");
    output::result(&format!(
        "  put the agent's key, such as ANTHROPIC_API_KEY=…, into {} (chmod 600)",
        environment.display()
    ));
    output::result("  systemctl --user daemon-reload");
    output::result(&format!("  systemctl --user enable --now {name}"));
    output::result("  loginctl enable-linger      # keeps it running after you log out");
    output::result(&format!("  journalctl --user -fu {name}"));
    Ok(exit::OK)
}

fn unit(program: &Path, config: &Path, folder: &Path, path: &str) -> Result<String, CommandError> {
    Ok(format!(
        "# Written by `ralph-orchestrator init --systemd`.\n\
         [Unit]\n\
         Description=ralph-orchestrator in {described}\n\
         \n\
         [Service]\n\
         Type=exec\n\
         WorkingDirectory={directory}\n\
         ExecStart={program} -c {config} run\n\
         # Where programs are found, as when this was written; keys are in a file of their own.\n\
         Environment={path}\n\
         EnvironmentFile=-%E/ralph-orchestrator/environment\n\
         # The agent is asked to end; what is left after that is killed.\n\
         KillMode=mixed\n\
         TimeoutStopSec=60\n\
         # 143 is a stop that was asked for. A run that was killed resumes; one that stopped for a\n\
         # reason waits for a person.\n\
         SuccessExitStatus=143\n\
         Restart=on-abnormal\n\
         RestartSec=10\n\
         \n\
         [Install]\n\
         WantedBy=default.target\n",
        described = plain(folder)?,
        directory = plain(folder)?,
        program = word(text(program)?),
        config = word(text(config)?),
        path = quoted(&format!("PATH={path}")),
    ))
}

/// A path as the rest of a line.
fn plain(path: &Path) -> Result<String, CommandError> {
    Ok(text(path)?.replace('%', "%%"))
}

/// A word of a command line.
fn word(text: &str) -> String {
    quoted(text).replace('$', "$$")
}

fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\"").replace('%', "%%"))
}

/// What a unit can name.
fn text(path: &Path) -> Result<&str, CommandError> {
    let text = path.to_str().filter(|text| !text.contains(char::is_control));
    text.ok_or_else(|| {
        let path: PathBuf = path.to_owned();
        CommandError::user(format!("{}: systemd cannot be given such a path", path.display()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_mean_nothing_else_to_systemd() {
        let (config, folder) = (Path::new("/w 100%/$a\"b\\/r.toml"), Path::new("/w 100%"));
        let unit = unit(Path::new("/bin/r"), config, folder, "/bin:/x%y").unwrap();
        let line = "ExecStart=\"/bin/r\" -c \"/w 100%%/$$a\\\"b\\\\/r.toml\" run\n";
        assert!(unit.contains(line), "{unit}");
        assert!(unit.contains("WorkingDirectory=/w 100%%\n"), "{unit}");
        assert!(unit.contains("Environment=\"PATH=/bin:/x%%y\"\n"), "{unit}");
        assert!(super::unit(Path::new("/bin/r"), Path::new("/a\nb"), folder, "").is_err());
    }
}
