//! Prints a configuration as TOML that parses to the same configuration, for `--check`.

use std::fmt::{Display, Write};

use crate::ublk::Number;

use super::{
    Address, Cache, Configuration, Device, Export, Identity, Listener, PeerMatch, ROTATIONAL, Sourced, read_limits,
};

/// The whole configuration, with every default.
pub fn show(configuration: &Configuration) -> String {
    let mut text = Text(String::new());
    if let Some(root) = &configuration.root {
        text.quoted("root", root.value.display());
    }
    text.plain("drain_timeout_s", configuration.drain_timeout_s);
    configuration.devices.iter().for_each(|it| device(it, &mut text));
    for group in &configuration.groups {
        text.heading("[[group]]");
        text.quoted("path", &group.path);
        text.plain("weight", group.weight);
        if let Some(leaf_weight) = group.leaf_weight {
            text.plain("leaf_weight", leaf_weight);
        }
        if let Some(priority) = group.priority {
            text.plain("priority", priority.get());
        }
        for (file, line) in read_limits(&group.limits) {
            if let Some(line) = line {
                text.quoted(file, line);
            }
        }
    }
    configuration.listeners.iter().for_each(|it| listener(it, &mut text));
    configuration.identities.iter().for_each(|it| identity(it, &mut text));
    if let Some(metrics) = &configuration.metrics {
        text.heading("[metrics]");
        address(&metrics.address.value, &mut text);
        text.plain("allow_plain", metrics.allow_plain);
    }
    if let Some(control) = &configuration.control {
        text.heading("[control]");
        text.quoted("unix", control.unix.value.display());
    }
    text.heading("[log]");
    text.quoted("format", configuration.log.format.name());
    text.quoted("level", configuration.log.filter.text());
    text.0
}

fn device(device: &Device, text: &mut Text) {
    text.heading("[[device]]");
    text.quoted("name", &device.name);
    text.quoted("scheduler", &device.scheduler);
    text.quoted("memory", device.memory);
    text.plain("queue_depth", device.queue_depth);
    let word = ROTATIONAL.iter().find(|(_, meaning)| *meaning == device.rotational).map_or("auto", |(word, _)| word);
    text.quoted("rotational", word);
    text.quoted("max_request", device.max_request);
    text.quoted("cache", if device.cache == Cache::Direct { "direct" } else { "page" });
    text.plain("batch_wait_us", device.batch_wait_us);
    text.plain("busy_poll_us", device.busy_poll_us);
    text.plain("threads", device.threads);
    text.quoted("inline_max", device.inline_max);
    let cpus: Vec<String> = device.cpu.iter().map(u64::to_string).collect();
    text.plain("cpu", format!("[{}]", cpus.join(", ")));
    device.exports.iter().for_each(|it| export(it, text));
}

fn export(export: &Export, text: &mut Text) {
    text.heading("[[device.export]]");
    text.quoted("name", &export.name);
    text.quoted("backing", &export.backing);
    text.quoted("group", &export.group);
    text.plain("read_only", export.read_only);
    text.plain("min_block", export.min_block);
    text.quoted("description", &export.description);
    text.plain("unsafe_flush", export.unsafe_flush);
    match export.ublk {
        None => text.plain("ublk", false),
        Some(Number::Any) => text.plain("ublk", true),
        Some(Number::Is(number)) => text.plain("ublk", number),
    }
    if let Some(address) = &export.vhost_user_blk {
        text.heading("[device.export.vhost_user_blk]");
        self::address(&address.value, text);
    }
}

fn listener(listener: &Listener, text: &mut Text) {
    text.heading("[[listen]]");
    address(&listener.address.value, text);
    text.list("exports", &listener.exports);
    text.plain("list", listener.list);
    text.plain("allow_plain", listener.allow_plain);
    if let Some(tls) = &listener.tls {
        let mut files = vec![("certificate", &tls.certificate), ("key", &tls.key)];
        files.extend(tls.client_ca.as_ref().map(|path| ("client_ca", path)));
        let files = files.iter().map(|(key, path)| format!("{key} = {}", quote(&path.value.to_string_lossy())));
        text.plain("tls", format!("{{ {} }}", files.collect::<Vec<_>>().join(", ")));
    }
    text.plain("max_connections", listener.max_connections);
    text.plain("max_connections_per_peer", listener.peer_connections);
    text.plain("handshake_timeout_s", listener.handshake_timeout_s);
    text.plain("stall_timeout_s", &listener.stall_timeout_s);
}

fn address(address: &Address, text: &mut Text) {
    match address {
        Address::Unix { path, mode, owner_group } => {
            text.quoted("unix", path.display());
            text.quoted("mode", format!("{mode:04o}"));
            if let Some(group) = owner_group {
                text.quoted("owner_group", group);
            }
        }
        Address::Tcp(address) => text.quoted("tcp", address),
    }
}

fn identity(identity: &Identity, text: &mut Text) {
    text.heading("[[identity]]");
    match &identity.property.value {
        PeerMatch::Uid(id) => text.plain("uid", id),
        PeerMatch::Gid(id) => text.plain("gid", id),
        PeerMatch::Certificate(name) => text.quoted("certificate", name),
        PeerMatch::Cgroup => text.plain("cgroup", true),
        PeerMatch::Listener(address) => text.quoted("listener", address),
    }
    if let Some(group) = &identity.group {
        text.quoted("group", group);
    }
    text.list("exports", &identity.exports);
}

/// A TOML text under construction. Writing into a `String` cannot fail.
struct Text(String);

impl Text {
    fn heading(&mut self, heading: &str) {
        let _ = write!(self.0, "\n{heading}\n");
    }

    fn plain(&mut self, key: &str, value: impl Display) {
        let _ = writeln!(self.0, "{key} = {value}");
    }

    fn quoted(&mut self, key: &str, value: impl Display) {
        let _ = writeln!(self.0, "{key} = {}", quote(&value.to_string()));
    }

    fn list(&mut self, key: &str, values: &[Sourced<String>]) {
        let quoted: Vec<String> = values.iter().map(|value| quote(&value.value)).collect();
        let _ = writeln!(self.0, "{key} = [{}]", quoted.join(", "));
    }
}

fn quote(text: &str) -> String {
    toml::Value::String(text.to_owned()).to_string()
}
