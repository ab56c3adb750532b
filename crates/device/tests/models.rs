//! Models by name and by file: their settings, what is rejected and where, and that a copied file
//! gives the same model.

use hoistway_device::{Device, Figure, MODELS, Model, Preset};

/// The message for a file of this text.
#[track_caller]
fn refused(text: &str) -> String {
    match Preset::read("my.toml", text) {
        Ok(preset) => panic!("accepted: {text}\n{preset:?}"),
        Err(error) => error.to_string(),
    }
}

#[test]
fn every_preset_is_complete_and_can_be_built() {
    for row in MODELS {
        let preset = Preset::load(row.name).unwrap_or_else(|error| panic!("{error}"));
        assert!(!preset.doc.is_empty(), "{}", row.name);
        assert!(row.text.starts_with("# "), "{}: no comment at its begin", row.name);
        let device = preset.model.build(1, "dev0");
        assert_eq!(device.info().capacity_sectors, preset.model.capacity_sectors(), "{}", row.name);
        let settings = preset.model.settings();
        for (index, setting) in settings.iter().enumerate() {
            let text = format!("{},{}={}", row.name, setting.key, setting.value);
            let again = Model::parse(&text).unwrap_or_else(|error| panic!("{error}"));
            assert_eq!(again.settings(), settings, "{text}");
            assert!(setting.parameter.doc.ends_with('.'), "{}", setting.key);
            assert!(!settings[index + 1..].iter().any(|other| other.key == setting.key), "{} twice", setting.key);
        }
    }
}

#[test]
fn the_values_of_section_10_are_in_the_files() {
    let value = |model: &str, key: &str| {
        let settings = Model::parse(model).unwrap().settings();
        settings.into_iter().find(|setting| setting.key == key).map(|setting| setting.value).unwrap()
    };
    for (model, key, expected) in [
        ("sata", "spt_outer", "1157"),
        ("sata", "seek_full_ms", "17.4"),
        ("hdd", "commit", "transfer_start"),
        ("wd2500js", "seek_avg_ms", "8.9"),
        ("wd2500js", "wc_entries", "10"),
        ("ide2003", "link_MBps", "90"),
        ("ide2003", "reorder", "0"),
        ("raid5x12", "level", "5"),
        ("raid5x12", "disk.segments", "2"),
        ("raid5x12", "disk.write_cache", "0"),
        ("raid5x12", "disk.seek_avg_ms", "9"),
        ("raid5x12-stream", "prefetch_kib", "2816"),
        ("raid5x12-stream", "disk.segments", "2"),
        ("ssd", "channel_MBps", "32"),
        ("ssd-lsi", "serial_us", "2"),
        ("ssd-plextor", "serial_us", "13.5"),
        ("nvme", "read_priority", "suspend"),
        ("nvme", "pages_per_block", "256"),
        ("null", "latency_us", "10"),
    ] {
        assert_eq!(value(model, key), expected, "{model} {key}");
    }
    let raid = Model::parse("raid5x12").unwrap();
    assert_eq!(raid.capacity_sectors(), 11 * (488_282_256 / 2048) * 2048);
}

#[test]
fn a_file_written_from_a_model_is_that_model() {
    for text in ["sata,seek_track_ms=1.25,seed=9", "raid5x12,disk.rpm=5400,level=0", "nvme,plp=0,error_ppm=5", "null"] {
        let preset =
            Preset { model: Model::parse(text).unwrap(), ..Preset::load(text.split(',').next().unwrap()).unwrap() };
        let written = preset.to_toml();
        let again = Preset::read("again.toml", &written).unwrap_or_else(|error| panic!("{error}\n{written}"));
        assert_eq!(again.model.settings(), preset.model.settings(), "{written}");
        assert_eq!((&again.anchors, &again.doc), (&preset.anchors, &preset.doc), "{written}");
        assert_eq!(again.to_toml(), written);
    }
}

#[test]
fn a_seek_table_survives_being_written() {
    let text = "type = \"hdd\"\nseek_table = [[1, 0.53], [36, 1.16], [80511, 9]]\n";
    let preset = Preset::read("a.toml", text).unwrap();
    assert!(preset.to_toml().contains("seek_table = [[1, 0.53], [36, 1.16], [80511, 9]]\n"), "{}", preset.to_toml());
    for table in ["[[1, 2], [1, 3]]", "[[1, 2], [5, 1]]", "[1, 2]", "[[1]]", "[[1, -2]]", "7", "[[0, 2]]", "[[1, 1e9]]"]
    {
        let message = refused(&format!("type = \"hdd\"\nseek_table = {table}\n"));
        assert!(message.starts_with("my.toml:2:") && message.contains("ascending"), "{message}");
    }
    assert!(refused("type = \"flash\"\nseek_table = [[1, 2]]\n").contains("no parameter 'seek_table'"));
}

#[test]
fn an_unknown_key_is_reported_with_its_line_and_the_nearest() {
    assert_eq!(
        refused("# mine\ntype = \"flash\"\nchanels = 4\n"),
        "my.toml:3:1: the model has no parameter 'chanels'; nearest: channels (1 to 1024). All of them: hoistway list devices"
    );
    let message = refused("base = \"raid5x12\"\n[disk]\n  sgments = 2\n");
    assert!(
        message.starts_with("my.toml:3:3: ") && message.contains("nearest: disk.segments (1 to 1024)"),
        "{message}"
    );
    let message = refused("base = \"ssd\"\n[disk]\nsegments = 2\n");
    assert!(message.starts_with("my.toml:2:2: ") && message.contains("no parameter 'disk'"), "{message}");
}

#[test]
fn a_missing_unit_is_reported_with_the_key_that_has_it() {
    assert_eq!(
        refused("type = \"flash\"\nt_read = 50\n"),
        "my.toml:2:1: the model has no parameter 't_read': it lacks its unit; nearest: t_read_us (0 to 100000000 us)"
    );
    assert_eq!(
        refused("type = \"hdd\"\nseek_avg_ms = \"9 ms\"\n"),
        "my.toml:2:15: seek_avg_ms = \"9 ms\": write a bare number of ms, without quotes; allowed: 0 to 100000 ms"
    );
    assert!(refused("type = \"hdd\"\nreorder = \"yes\"\n").contains("write true or false"));
}

#[test]
fn negative_and_absurd_values_are_reported_with_the_range() {
    for (line, what) in [
        ("rpm = -7200", "rpm cannot be '-7200'; allowed: 60 to 100000"),
        ("rpm = 7200.0", "rpm cannot be '7200.0'; allowed: 60 to 100000"),
        ("rpm = 1000000000", "rpm cannot be '1000000000'; allowed: 60 to 100000"),
        ("seek_avg_ms = 1e3", "seek_avg_ms cannot be '1e3'; allowed: 0 to 100000 ms"),
        ("seek_avg_ms = nan", "seek_avg_ms cannot be 'nan'; allowed: 0 to 100000 ms"),
        ("age_weight = -0.5", "age_weight cannot be '-0.5'; allowed: 0 to 1000"),
        ("commit = \"never\"", "commit cannot be 'never'; allowed: transfer_start or transfer_end"),
        ("rpm = [7200]", "rpm cannot be of type array; allowed: 60 to 100000"),
        ("link_MBps = 0", "link_MBps cannot be '0'; allowed: 1 to 1000000 MB/s"),
    ] {
        let column = line.find("= ").unwrap() + 3;
        assert_eq!(refused(&format!("type = \"hdd\"\n{line}\n")), format!("my.toml:2:{column}: {what}"));
    }
}

#[test]
fn texts_that_are_no_model() {
    assert!(refused("type = \"hdd\"\nrpm = \n").starts_with("my.toml:2:"));
    assert!(refused("").contains("neither type (hdd, raid, flash, null) nor base"));
    assert!(
        refused("type = \"hd\"\n")
            .starts_with("my.toml:1:8: type = \"hd\" is not one of hdd, raid, flash, null; nearest: hdd")
    );
    assert!(refused("type = \"flash\"\nbase = \"sata\"\n").contains("contradicts the base, which is \"hdd\""));
    assert!(
        refused("base = \"stata\"\n")
            .starts_with("my.toml:1:8: base: model:stata: there is no device model 'stata'; nearest: sata")
    );
    assert!(refused("base = \"raid5x12\"\ndisk = 3\n").contains("begin it with [disk]"));
    assert!(refused("base = \"raid5x12\"\ndisk.base = \"nvme\"\n").contains("name a model of type hdd"));
}

#[test]
fn an_anchor_is_read_whole_or_refused_at_its_line() {
    let anchor = "type = \"null\"\n[[anchor]]\nname = \"x\"\nfigure = \"iops\"\npublished = [1, 2.5]\nunit = \"1/s\"\nscheduler = \"noop\"\njob = \"[a]\"\n";
    let preset = Preset::read("a.toml", anchor).unwrap();
    assert_eq!((preset.anchors[0].figure, &preset.anchors[0].published[..]), (Figure::Iops, &[1.0, 2.5][..]));
    assert_eq!(preset.anchors[0].repetitions.len(), 1);
    for (from, to, at, what) in [
        ("figure = \"iops\"", "figure = \"iopps\"", "4:10", "nearest: iops"),
        ("unit = \"1/s\"", "unit = \"MB/s\"", "6:8", "allowed: 1/s"),
        ("published = [1, 2.5]", "published = 0", "5:13", "above 0"),
        ("published = [1, 2.5]", "published = \"3\"", "5:13", "above 0"),
        ("scheduler", "schduler", "7:1", "nearest: scheduler"),
        ("scheduler = \"noop\"", "copies = 1", "2:1", "needs scheduler"),
        ("unit = \"1/s\"", "unit = \"1/s\"\nseeds = [1, 2]\noffsets_mb = [3]", "7:9", "2 seeds and 1 offsets_mb"),
        ("unit = \"1/s\"", "unit = \"1/s\"\nseeds = [-1]", "7:10", "allowed: 0 to"),
        ("unit = \"1/s\"", "unit = \"1/s\"\nprovisional = 1", "7:15", "true or false"),
        ("unit = \"1/s\"", "unit = \"1/s\"\ndirection = \"trim\"", "7:13", "read, write"),
    ] {
        let message = refused(&anchor.replace(from, to));
        assert!(message.starts_with(&format!("my.toml:{at}: ")) && message.contains(what), "{to}: {message}");
    }
}

#[test]
fn a_file_is_named_like_a_model_and_changed_like_one() {
    let place = tempfile::tempdir().expect("a directory");
    let directory = place.path();
    let path = |name: &str| directory.join(name).display().to_string();
    std::fs::write(path("mine.toml"), "base = \"sata\"\nrpm = 5400\n").unwrap();
    std::fs::write(path("array.toml"), "base = \"raid5x12\"\ndisk.base = \"mine.toml\"\n").unwrap();
    std::fs::write(path("loop.toml"), "base = \"loop.toml\"\n").unwrap();
    let model = Model::parse(&format!("model:{},seek_avg_ms=8", path("mine.toml"))).unwrap();
    assert_eq!(model.name(), format!("{},seek_avg_ms=8", path("mine.toml")));
    let value = |model: &Model, key: &str| {
        model.settings().into_iter().find(|setting| setting.key == key).map(|setting| setting.value).unwrap()
    };
    assert_eq!((value(&model, "rpm"), value(&model, "seek_avg_ms")), ("5400".to_owned(), "8".to_owned()));
    assert_eq!(value(&Model::parse(&path("array.toml")).unwrap(), "disk.rpm"), "5400");
    let wrong = |name: &str| Model::parse(&path(name)).unwrap_err().to_string();
    assert!(wrong("loop.toml").contains("based on itself"), "{}", wrong("loop.toml"));
    assert!(wrong("none.toml").contains("cannot be read"), "{}", wrong("none.toml"));
    assert!(Model::parse("/dev/zero").unwrap_err().to_string().contains("regular file"));
    std::fs::remove_dir_all(directory).unwrap();
}

#[test]
fn a_model_in_front_of_a_file_is_as_large_and_no_smaller_than_itself() {
    for name in ["sata", "ssd", "raid5x12"] {
        let model = Model::parse(name).unwrap();
        assert_eq!(model.clone().with_capacity_sectors(8), model, "{name}");
        let large = model.capacity_sectors() * 2 + 8;
        let grown = model.with_capacity_sectors(large);
        assert!(grown.capacity_sectors() >= large, "{name}");
        assert!(grown.build(1, "dev0").info().capacity_sectors >= large, "{name}");
    }
    assert_eq!(Model::parse("null").unwrap().with_capacity_sectors(16).capacity_sectors(), 16);
}
