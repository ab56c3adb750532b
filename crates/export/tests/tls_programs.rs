//! NBD over TLS with real clients, which use GnuTLS: nbdinfo and nbdcopy (libnbd), qemu-img and qemu-io, fio. A client
//! that is not installed is skipped with a message.

mod client;
mod server;
mod tls_client;

use std::process::{Command, Output, Stdio};

use tls_client::{FUTURE, Fixture, files, pattern};

const IDENTITY: &str = "[[identity]]\ncertificate = \"tenant-a\"\ngroup = \"tenants/a\"\nexports = [\"a\"]\n";

/// Whether a program is installed; if not, prints a message.
fn has(program: &str) -> bool {
    let is_there = Command::new(program).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok();
    if !is_there {
        println!("SKIPPED {program} with TLS: not installed (Debian: fio libnbd-bin qemu-utils)");
    }
    is_there
}

/// A server that asks for certificates, with the files of a client called `tenant-a` beside its own.
fn fixture() -> Fixture {
    let fixture = Fixture::mutual(IDENTITY);
    fixture.authority.sign(&["tenant-a"], FUTURE).write(fixture.directory.path(), "client");
    fixture
}

/// Runs a program with at most a minute; `home` has the certificates that libnbd uses by default.
fn run(fixture: &Fixture, program: &str, arguments: &[&str]) -> Output {
    let home = fixture.directory.path();
    let mut command = Command::new("timeout");
    command.arg("60").arg(program).args(arguments).env("HOME", home).current_dir(home).stdin(Stdio::null());
    command.output().unwrap()
}

#[track_caller]
fn succeed(fixture: &Fixture, program: &str, arguments: &[&str]) -> String {
    let output = run(fixture, program, arguments);
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{program} {arguments:?}: {}\n{out}\n{err}", output.status);
    out
}

fn uri(fixture: &Fixture, export: &str) -> String {
    let directory = fixture.directory.path().display();
    format!("nbds://localhost:{}/{export}?tls-certificates={directory}", fixture.address().port())
}

#[test]
fn nbdinfo_sees_tls_and_the_exports_of_its_certificate() {
    if !has("nbdinfo") {
        return;
    }
    let fixture = fixture();
    let shown = succeed(&fixture, "nbdinfo", &[&uri(&fixture, "a")]);
    assert!(shown.contains("newstyle-fixed with TLS"), "{shown}");
    let listed = succeed(&fixture, "nbdinfo", &["--list", &uri(&fixture, "")]);
    assert!(listed.contains("export=\"a\"") && !listed.contains("export=\"b\""), "{listed}");
    assert!(!run(&fixture, "nbdinfo", &[&uri(&fixture, "b")]).status.success());
    let plain = uri(&fixture, "a").replace("nbds:", "nbd:");
    let refused = run(&fixture, "nbdinfo", &[plain.split('?').next().unwrap()]);
    assert!(!refused.status.success(), "without TLS");
    // Without its certificate the client is refused.
    let (certificate, key) = files(fixture.directory.path(), "client");
    std::fs::remove_file(certificate).unwrap();
    std::fs::remove_file(key).unwrap();
    assert!(!run(&fixture, "nbdinfo", &[&uri(&fixture, "a")]).status.success());
    fixture.await_no_connections();
}

#[test]
fn nbdcopy_there_and_back_is_identical() {
    if !has("nbdcopy") {
        return;
    }
    let fixture = fixture();
    let data = pattern(64 << 20, 3);
    let source = fixture.directory.path().join("source.img");
    std::fs::write(&source, &data).unwrap();
    let there = ["--connections=4", "--requests=64", "--flush", source.to_str().unwrap(), &uri(&fixture, "a")];
    succeed(&fixture, "nbdcopy", &there);
    let copy = fixture.directory.path().join("copy.img");
    succeed(&fixture, "nbdcopy", &["--connections=4", &uri(&fixture, "a"), copy.to_str().unwrap()]);
    assert!(std::fs::read(copy).unwrap() == data, "what came back differs");
    let down = run(&fixture, "nbdcopy", &["--synchronous", &uri(&fixture, "a"), "-"]);
    assert!(down.stdout == data, "what came back one request at a time differs");
    fixture.await_no_connections();
}

#[test]
fn qemu_reads_back_what_it_wrote() {
    if !has("qemu-img") || !has("qemu-io") {
        return;
    }
    let fixture = fixture();
    let credentials = format!("tls-creds-x509,id=tls0,endpoint=client,dir={}", fixture.directory.path().display());
    let port = fixture.address().port();
    let image = |host: &str| format!("driver=nbd,host={host},port={port},export=a,tls-creds=tls0");
    let by_name = image("localhost");
    let arguments = |options: &'static [&'static str]| -> Vec<&str> {
        [&["--object", &credentials, "--image-opts", &by_name], options].concat()
    };
    let commands = &[
        "-c",
        "write -P 0xab 1M 4M",
        "-c",
        "flush",
        "-c",
        "read -P 0xab 1M 4M",
        "-c",
        "write -z 2M 1M",
        "-c",
        "read -P 0 2M 1M",
    ];
    let output = succeed(&fixture, "qemu-io", &arguments(commands));
    assert!(!output.contains("failed") && !output.contains("error"), "{output}");
    let info = succeed(&fixture, "qemu-img", &[&["info"][..], &arguments(&[])].concat());
    assert!(info.contains("64 MiB"), "{info}");
    // The same server by an address that its certificate does not name.
    let elsewhere = image("0.0.0.0");
    let wrong = run(&fixture, "qemu-img", &["info", "--object", &credentials, "--image-opts", &elsewhere]);
    assert!(!wrong.status.success(), "a server with another name");
    fixture.await_no_connections();
}

#[test]
fn fio_verifies_what_it_wrote() {
    if !has("fio") {
        return;
    }
    let fixture = fixture();
    // fio gives libnbd no leave to read the files that an URI names, so they are where libnbd looks by itself: for all
    // users but root in the home directory.
    let home = fixture.directory.path().join(".pki/libnbd");
    std::fs::create_dir_all(&home).unwrap();
    for name in ["ca-cert.pem", "client-cert.pem", "client-key.pem"] {
        std::fs::copy(fixture.directory.path().join(name), home.join(name)).unwrap();
    }
    let uri = format!("--uri=nbds://localhost:{}/a", fixture.address().port());
    let mut arguments = vec!["fio", "--name=t", "--ioengine=nbd", &uri, "--rw=randwrite", "--bs=4k-64k"];
    arguments.extend(["--iodepth=16", "--size=32m", "--verify=crc32c"]);
    if rustix::process::geteuid().is_root() {
        if !has("setpriv") {
            return;
        }
        succeed(&fixture, "chown", &["-R", "65534", "."]);
        arguments.splice(0..0, ["--reuid=65534", "--regid=65534", "--clear-groups"]);
        arguments.insert(0, "setpriv");
    }
    let output = run(&fixture, arguments[0], &arguments[1..]);
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    if err.contains("engine nbd not loadable") || out.contains("engine nbd not loadable") {
        println!("SKIPPED fio with TLS: it was built without libnbd");
        return;
    }
    assert!(output.status.success() && out.contains("err= 0"), "{}\n{out}\n{err}", output.status);
    fixture.await_no_connections();
}
