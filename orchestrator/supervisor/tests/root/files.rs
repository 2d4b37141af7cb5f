//! What a process in a root sees, and what it can write.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, symlink};

use ralph_orchestrator_supervisor::{MountAccess, Root, RootUser, Tmpfs};

use crate::common::sh;
use crate::fixture::{app, mount, require, run, script, supervisor};

#[tokio::test]
async fn it_sees_its_mounts_and_the_system_and_nothing_else_of_the_host() {
    let (folder, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    fs::write(folder.path().join("given"), "text").unwrap();
    let seen = script(
        &app(folder.path()),
        "ls -A /; echo --; ls -A /tmp /var /var/tmp /app; cat /app/given; [ ! -e /sys ]; [ ! -e /home ]",
    )
    .await;
    let (root, rest) = seen.split_once("--\n").unwrap();
    let mut allowed = vec!["app", "dev", "proc", "tmp", "var", "usr", "bin", "sbin", "etc", "opt"];
    allowed.extend(["lib", "lib32", "lib64", "libx32"]);
    assert!(root.lines().all(|name| allowed.contains(&name)), "{root}");
    assert_eq!(rest, "/app:\ngiven\n\n/tmp:\n\n/var:\ntmp\n\n/var/tmp:\ntext");
    let path = other.path().display();
    script(&app(folder.path()), &format!("[ ! -e {path} ]; [ ! -e {} ]", folder.path().display()))
        .await;
}

#[tokio::test]
async fn only_writable_mounts_and_memory_can_be_written() {
    let folder = tempfile::tempdir().unwrap();
    let text = "for f in /x /usr/x /etc/x /bin/x /opt/x /dev/x /var/x /proc/sys/kernel/hostname; do
            if (echo > $f) 2>/dev/null; then echo $f; fi
        done
        touch /app/a /tmp/b /var/tmp/c /dev/shm/d; echo > /dev/null
        mount -t tmpfs none /tmp 2>/dev/null && echo mounted
        mount -o remount,rw /usr 2>/dev/null && echo remounted
        umount /etc 2>/dev/null && echo unmounted
        chroot /app true 2>/dev/null && echo chrooted
        true";
    assert_eq!(script(&app(folder.path()), text).await, "");
    let names: Vec<_> =
        fs::read_dir(folder.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(names, ["a"]);
    // What is in memory is gone with the tree.
    assert_eq!(
        script(&app(folder.path()), "ls -A /tmp /var/tmp /dev/shm | grep -v :").await.trim(),
        ""
    );
}

#[tokio::test]
async fn the_devices_that_programs_expect_work() {
    require(&["script"], "bsdutils");
    let text =
        "head -c 3 /dev/zero | od -An -tx1; echo lost > /dev/null; head -c 8 /dev/urandom | wc -c
        head -c 1 /dev/random | wc -c; head -c 1 /dev/zero 2>/dev/null > /dev/full || echo full
        echo a | cat /dev/stdin; echo b > /dev/stdout; echo c | cat /dev/fd/0; ls /dev/pts/ptmx
        script -qec 'test -t 0 && echo terminal' /dev/null < /dev/null | tr -d '\\r'";
    let seen = script(&Root::default(), text).await;
    let wanted = " 00 00 00\n8\n1\nfull\na\nb\nc\n/dev/pts/ptmx\nterminal\n";
    assert_eq!(seen, wanted);
}

#[tokio::test]
async fn a_read_only_mount_refuses_writes_and_a_file_can_be_mounted_alone() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("secret of many");
    fs::write(&file, "one").unwrap();
    let root = Root {
        mounts: vec![
            mount(folder.path(), "/read", MountAccess::ReadOnly),
            mount(&file, "/deep/down/below/file", MountAccess::ReadOnly),
            mount(&file, "/writable", MountAccess::Writable),
        ],
        ..Root::default()
    };
    let text = "cat /read/*; cat /deep/down/below/file; ls -A /deep/down/below
        for f in /read/x '/read/secret of many' /deep/down/below/file /deep/x; do
            if (echo > \"$f\") 2>/dev/null; then echo \"$f\"; fi
        done
        rm -f /read/* 2>/dev/null && echo removed
        echo two > /writable; cat /writable /read/*";
    assert_eq!(script(&root, text).await, "oneonefile\ntwo\ntwo\n");
    assert_eq!(fs::read_to_string(&file).unwrap(), "two\n");
}

#[tokio::test]
async fn a_mount_covers_what_it_lies_on_and_a_target_in_another_mount_must_exist() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir_all(folder.path().join("inner")).unwrap();
    let inner = tempfile::tempdir().unwrap();
    fs::write(inner.path().join("x"), "x").unwrap();
    let mut root = app(folder.path());
    root.mounts.push(mount(inner.path(), "/app/inner", MountAccess::ReadOnly));
    root.mounts.push(mount(inner.path(), "/opt", MountAccess::ReadOnly));
    root.tmpfs.push(Tmpfs { target: "/tmp/small".into(), max_bytes: Some(4096) });
    let text = "cat /app/inner/x /opt/x; touch /app/inner/y 2>/dev/null || echo no; touch /app/y
        head -c 100000 /dev/zero 2>/dev/null > /tmp/small/f || wc -c < /tmp/small/f";
    assert_eq!(script(&root, text).await, "xxno\n4096\n");
    for target in ["/app/missing", "/usr/no such", "/etc/no/such"] {
        root.mounts[1].target = target.into();
        let error = run(&supervisor(&root), sh("true")).await.unwrap_err().to_string();
        assert!(error.contains(&format!("`{target}`")) && error.contains("os error 2"), "{error}");
    }
    assert!(!folder.path().join("missing").exists(), "nothing was created on the host");
}

#[tokio::test]
async fn links_in_a_writable_mount_lead_to_what_is_inside() {
    let (folder, host) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    fs::write(host.path().join("outside"), "host").unwrap();
    for (name, to) in
        [("absolute", host.path().join("outside")), ("up", "../../../../../../tmp".into())]
    {
        symlink(to, folder.path().join(name)).unwrap();
    }
    symlink("/etc/passwd", folder.path().join("passwd")).unwrap();
    symlink("/", folder.path().join("root")).unwrap();
    let text = "[ ! -e /app/absolute ]; ls -A /app/up; ls -A /app/root | grep -c '^home$' || :
        cmp /app/passwd /etc/passwd; (echo x >> /app/passwd) 2>/dev/null || echo refused
        ls -A /proc/1/root 2>/dev/null || echo hidden; cat /proc/1/environ 2>/dev/null || echo hidden";
    assert_eq!(script(&app(folder.path()), text).await, "0\nrefused\nhidden\nhidden\n");
}

#[tokio::test]
async fn a_link_where_a_mount_should_be_is_an_error_and_is_not_followed() {
    let (folder, inner) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    symlink("/etc", folder.path().join("trap")).unwrap();
    let mut root = app(folder.path());
    root.mounts.push(mount(inner.path(), "/app/trap", MountAccess::Writable));
    let error = run(&supervisor(&root), sh("true")).await.unwrap_err().to_string();
    assert!(error.contains("`/app/trap`") && error.contains("symlink"), "{error}");
}

#[tokio::test]
async fn files_belong_to_the_caller_outside_and_to_the_chosen_user_inside() {
    let folder = tempfile::tempdir().unwrap();
    let own = fs::metadata(folder.path()).unwrap();
    for (user, uid, gid) in [(RootUser::Caller, own.uid(), own.gid()), (RootUser::Root, 0, 0)] {
        let root = Root { user, ..app(folder.path()) };
        let seen = script(&root, "id -u; id -g; touch /app/made; stat -c '%u %g' /app/made").await;
        assert_eq!(seen, format!("{uid}\n{gid}\n{uid} {gid}\n"));
        let made = fs::metadata(folder.path().join("made")).unwrap();
        assert_eq!((made.uid(), made.gid()), (own.uid(), own.gid()));
        fs::remove_file(folder.path().join("made")).unwrap();
    }
}

#[tokio::test]
async fn nothing_is_mounted_on_the_host() {
    let folder = tempfile::tempdir().unwrap();
    let mounts = || fs::read_to_string("/proc/self/mountinfo").unwrap();
    let before = mounts();
    let mut root = app(folder.path());
    script(&root, "touch /app/a").await;
    root.mounts[0].target = "/usr/no/such".into();
    run(&supervisor(&root), sh("true")).await.unwrap_err();
    assert_eq!(mounts(), before);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[tokio::test]
async fn the_settings_of_the_kernel_cannot_be_written() {
    let text = "find /proc -maxdepth 3 -path '/proc/[0-9]*' -prune -o -path '/proc/*self' -prune \\
            -o -path /proc/net -prune -o -type f -perm /222 -print | while read f; do
                if (: >> $f) 2>/dev/null; then echo $f; fi
            done";
    // Those of its own ipc and pid namespaces, and monitors of the load.
    let own = [
        "/proc/sys/kernel/auto_msgmni",
        "/proc/sys/kernel/msg",
        "/proc/sys/kernel/ns_last_pid",
        "/proc/sys/kernel/pid_max",
        "/proc/sys/kernel/sem",
        "/proc/sys/kernel/shm",
        "/proc/pressure/",
    ];
    for user in [RootUser::Caller, RootUser::Root] {
        let seen = script(&Root { user, ..Root::default() }, text).await;
        let bad: Vec<_> =
            seen.lines().filter(|path| !own.iter().any(|own| path.starts_with(own))).collect();
        assert!(bad.is_empty(), "{bad:?}");
        let superuser = rustix::process::geteuid().is_root();
        assert!(!superuser || seen.is_empty(), "{seen}");
    }
}
