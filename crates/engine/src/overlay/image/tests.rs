//! The commands on files: what is made, what is refused, and a commit that is interrupted.

use std::fs;
use std::time::{Duration, SystemTime};

use super::super::format::Layout;
use super::*;

const BASE_BYTES: u64 = 5 * BLOCK_BYTES + 700;

struct Files {
    _directory: tempfile::TempDir,
    base: PathBuf,
    overlay: PathBuf,
}

fn files() -> Files {
    let directory = tempfile::tempdir().expect("a directory");
    let (base, overlay) = (directory.path().join("base.img"), directory.path().join("a.ov"));
    let bytes: Vec<u8> = (0..BASE_BYTES).map(|at| u8::try_from(1 + at / 300 % 255).unwrap_or(1)).collect();
    fs::write(&base, bytes).expect("a base");
    Files { _directory: directory, base, overlay }
}

fn says<T: std::fmt::Debug>(result: Result<T, EngineError>, words: &[&str]) {
    let error = result.expect_err("an error").to_string();
    assert!(words.iter().all(|word| error.contains(word)), "{error}");
}

/// Makes these blocks the overlay's own, with a byte each; 0 leaves a hole.
fn write_blocks(overlay: &Path, blocks: &[(u64, u8)]) {
    let opened = open(overlay, None, WRITING).expect("the overlay");
    let (_, _, mut map) = describe(&opened, overlay).expect("an overlay");
    let file = File::from(opened.file);
    for &(block, byte) in blocks {
        let at = block * BLOCK_BYTES;
        let bytes = vec![byte; usize::try_from(BLOCK_BYTES).expect("small")];
        if byte != 0 {
            file.write_all_at(&bytes, map.layout().data_bytes + at).expect("written");
        }
        map.take_over(&(at..at + 1));
    }
    for page in 0..map.layout().pages {
        let words = map.words_to_store(page);
        map.stored(page, &words, false);
    }
    for write in map.seal_all() {
        file.write_all_at(&write.bytes[..], write.position_bytes).expect("written");
    }
}

#[test]
fn a_new_overlay_has_nothing_but_the_end_of_its_base() {
    let files = files();
    let info = create(&files.base, &files.overlay, 0).expect("an overlay");
    assert_eq!((info.size_bytes, info.own_blocks, info.base_blocks), (BASE_BYTES, 0, 5));
    assert!(info.allocated_bytes <= 100 << 10, "{info:?}");
    assert_eq!(check(&files.overlay, None), Ok(info.clone()));
    let whole = fs::read(&files.overlay).expect("the overlay");
    let data = usize::try_from(Layout::of(BASE_BYTES).data_bytes).expect("small");
    let end = usize::try_from(5 * BLOCK_BYTES).expect("small");
    assert_eq!(whole[data + end..], fs::read(&files.base).expect("the base")[end..]);
    says(create(&files.base, &files.overlay, 0), &["a.ov", "exists", "another name"]);
    let other = files.overlay.with_extension("b");
    says(create(&files.base, &other, 512), &["smaller", "no size"]);
    assert!(!other.exists());
    assert_eq!(create(&files.base, &other, 1 << 30).expect("a larger one").size_bytes, 1 << 30);
}

#[test]
fn what_is_no_base_is_refused_with_a_remedy() {
    let files = files();
    create(&files.base, &files.overlay, 0).expect("an overlay");
    let other = files.overlay.with_extension("b");
    says(create(&files.overlay, &other, 0), &["is an overlay itself", "image commit"]);
    let qcow2 = files.base.with_extension("qcow2");
    fs::write(&qcow2, [b"QFI\xfb".as_slice(), &[0; 1_000]].concat()).expect("a file");
    says(create(&qcow2, &other, 0), &["qcow2", "qemu-img convert -O raw", "base.img"]);
    says(info(&files.base), &["is no overlay", "image create"]);
    says(create(&files.base.join("x"), &other, 0), &["help"]);
}

#[test]
fn a_base_that_has_changed_is_refused_until_it_is_as_it_was() {
    let files = files();
    let made = create(&files.base, &files.overlay, 0).expect("an overlay");
    let then = SystemTime::UNIX_EPOCH
        + Duration::new(u64::try_from(made.base.modified_s).expect("now"), made.base.modified_ns);
    let base = File::options().write(true).open(&files.base).expect("the base");
    base.set_modified(then + Duration::from_nanos(1_000)).expect("a time");
    says(check(&files.overlay, None), &["base.img", "has changed since", "a.ov", "touch -d @"]);
    base.set_modified(then).expect("a time");
    assert!(check(&files.overlay, None).is_ok());
    base.set_len(BASE_BYTES + 1).expect("longer");
    says(check(&files.overlay, None), &["bytes; the base of", "put the base back"]);
}

#[test]
fn a_cut_or_damaged_overlay_is_refused_and_one_bad_copy_is_reported() {
    let files = files();
    create(&files.base, &files.overlay, 0).expect("an overlay");
    let file = File::options().write(true).read(true).open(&files.overlay).expect("it");
    let length = file.metadata().expect("it").len();
    file.set_len(length - 1).expect("cut");
    says(check(&files.overlay, None), &["was cut", "backup"]);
    file.set_len(length).expect("as before");
    write_blocks(&files.overlay, &[(1, 9)]);
    let layout = Layout::of(BASE_BYTES);
    // The newest sealed slot, and the first copy of the header.
    file.write_all_at(b"?", layout.slot_bytes(0, 0) + 99).expect("damage");
    file.write_all_at(b"?", 99).expect("damage");
    let found = check(&files.overlay, None).expect("the other copies");
    assert_eq!((found.damaged, found.own_blocks), (vec![DamagedSlot { page: 0, slot: 0 }], 0));
    file.write_all_at(b"?", layout.slot_bytes(0, 1) + 99).expect("damage");
    says(check(&files.overlay, None), &["both copies of page 0", "backup"]);
    file.write_all_at(b"?", 4_096 + 99).expect("damage");
    says(check(&files.overlay, None), &["its header is damaged", "backup"]);
}

#[test]
fn a_commit_makes_the_base_what_the_overlay_was_and_goes_on_when_it_was_interrupted() {
    let files = files();
    create(&files.base, &files.overlay, 7 * BLOCK_BYTES).expect("an overlay");
    let other = files.overlay.with_extension("b");
    create(&files.base, &other, 0).expect("another");
    write_blocks(&files.overlay, &[(1, 7), (3, 0)]);
    let mut expected = fs::read(&files.base).expect("the base");
    expected.resize(usize::try_from(7 * BLOCK_BYTES).expect("small"), 0);
    let block = usize::try_from(BLOCK_BYTES).expect("small");
    expected[block..2 * block].fill(7);
    expected[3 * block..4 * block].fill(0);

    // As if it had been interrupted behind half of its writes.
    let file = File::options().write(true).read(true).open(&files.overlay).expect("it");
    let mut header = read_header(file.as_fd(), &files.overlay).expect("a header");
    header.is_committing = true;
    write_header(file.as_fd(), &header).expect("written");
    let base = File::options().write(true).open(&files.base).expect("the base");
    base.write_all_at(&[7; 100], BLOCK_BYTES).expect("half of it");
    says(check(&files.overlay, None), &["interrupted", "hoistway image commit"]);
    drop((file, base));

    let done = commit(&files.overlay, None).expect("committed");
    assert!(done.emptied_bytes >= BLOCK_BYTES && done.written_bytes >= BLOCK_BYTES, "{done:?}");
    assert!(fs::read(&files.base).expect("the base") == expected);
    let left = check(&files.overlay, None).expect("an empty overlay");
    assert_eq!((left.own_blocks, left.size_bytes), (0, 7 * BLOCK_BYTES));
    says(check(&other, None), &["put the base back"]);
    assert_eq!(commit(&files.overlay, None).map(|again| again.written_bytes), Ok(0));
}

#[test]
fn an_overlay_or_base_in_use_is_left_alone() {
    let files = files();
    create(&files.base, &files.overlay, 0).expect("an overlay");
    let held = open(&files.overlay, None, WRITING).expect("a server");
    says(check(&files.overlay, None), &["already open for writing"]);
    says(commit(&files.overlay, None), &["already open for writing"]);
    assert!(info(&files.overlay).is_ok(), "it can be described");
    drop(held);
    let below =
        open_base(&files.base, |path, opening| open(path, None, opening), READING).expect("a server of another");
    says(commit(&files.overlay, None), &["base.img"]);
    assert!(check(&files.overlay, None).is_ok(), "readers share the base");
    drop(below);
    let written = open(&files.base, None, WRITING).expect("an export of the base itself");
    says(check(&files.overlay, None), &["base.img", "already open for writing"]);
    drop(written);
    assert!(commit(&files.overlay, None).is_ok());
}
