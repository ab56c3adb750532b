//! A ublk target on libublk whose volumes share one disk by weight. What puts shares into a block server that exists
//! already is the line with `acquire_bytes`; how many requests the disk should have at a time is learned.
//!
//! ```sh
//! sudo ublk-target 800=/srv/db.img 100=/srv/batch.img    # prints /dev/ublkb0 and /dev/ublkb1; Ctrl-C removes them
//! ```
//! Each volume has a thread, with a queue of [`DEPTH`] requests.

use std::fs::{File, OpenOptions};
use std::future::poll_fn;
use std::io::{Seek, SeekFrom};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::pin::pin;
use std::thread;

use futures_util::future::{Either, join_all, select};
use hoistway::queue::{AsyncShares, SharesSettings, TenantId};
use io_uring::{opcode, squeue, types};
use libublk::ctrl::{UblkCtrl, UblkCtrlBuilder};
use libublk::helpers::IoBuf;
use libublk::io::{UblkDev, UblkQueue, with_task_io_ring, with_task_io_ring_mut};
use libublk::uring_async::{ublk_reap_io_events_with_update_queue, ublk_submit_sqe_async, ublk_wake_task};
use libublk::{BufDesc, UblkError, UblkFlags, UblkUringData, sys};
use tokio::io::unix::AsyncFd;

const DEPTH: u16 = 32;
const BUFFER_BYTES: u32 = 512 << 10;
/// Numbers of the kernel for errors, and for I/O past the page cache.
const EIO: i32 = 5;
const EINVAL: i32 = 22;
const O_DIRECT: i32 = 0o40000;
/// The volume's file among those that libublk registers; the first is the driver's.
const FILE: types::Fixed = types::Fixed(1);

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Who the requests of a volume are for.
#[derive(Clone)]
struct Tenant {
    shares: AsyncShares,
    id: TenantId,
}

/// Waits for the tenant's turn and does one request of the driver. Gives the bytes moved, or an error below 0.
async fn serve(q: &UblkQueue<'_>, tag: u16, buffer: &mut [u8], tenant: &Tenant) -> i32 {
    let request = q.get_iod(tag);
    let (kind, offset, bytes) = (request.op_flags & 0xff, request.start_sector << 9, request.nr_sectors << 9);
    let moved_bytes = if kind == sys::UBLK_IO_OP_FLUSH { 0 } else { u64::from(bytes) };
    let Ok(_permit) = tenant.shares.acquire_bytes(tenant.id, moved_bytes).await else { return -EIO };
    let entry = match kind {
        sys::UBLK_IO_OP_READ => opcode::Read::new(FILE, buffer.as_mut_ptr(), bytes).offset(offset).build(),
        sys::UBLK_IO_OP_WRITE => opcode::Write::new(FILE, buffer.as_ptr(), bytes).offset(offset).build(),
        sys::UBLK_IO_OP_FLUSH => opcode::Fsync::new(FILE).build(),
        _ => return -EINVAL,
    };
    let entry = entry.flags(squeue::Flags::FIXED_FILE);
    ublk_submit_sqe_async(entry, UblkUringData::Target as u64).await.unwrap_or(-EIO)
}

/// Serves the requests of one tag until the device is stopped.
async fn serve_tag(q: &UblkQueue<'_>, tag: u16, tenant: &Tenant) -> Result<(), UblkError> {
    let mut buffer = IoBuf::<u8>::new(q.dev.dev_info.max_io_buf_bytes as usize);
    q.submit_io_prep_cmd(tag, BufDesc::Slice(buffer.as_slice()), 0, Some(&buffer)).await?;
    loop {
        let result = serve(q, tag, buffer.as_mut_slice(), tenant).await;
        q.submit_io_commit_cmd(tag, BufDesc::Slice(buffer.as_slice()), result).await?;
    }
}

/// The thread of a volume's queue, until the device is stopped.
async fn serve_queue(q: &UblkQueue<'_>, tenant: &Tenant) -> Result<(), UblkError> {
    let failed = |_| UblkError::OtherError(-EIO);
    let fd = with_task_io_ring(|ring| ring.as_raw_fd());
    // SAFETY: the ring is this thread's and stays open until the thread ends.
    let ring = unsafe { AsyncFd::register(BorrowedFd::borrow_raw(fd)) }.map_err(|_| UblkError::OtherError(-EIO))?;
    let mut tags = pin!(join_all((0..DEPTH).map(|tag| serve_tag(q, tag, tenant))));
    // The turn of a request may come from the thread of the other volume. Whatever woke them, what the tags have put
    // into the ring is submitted before this thread sleeps.
    let tags = poll_fn(|context| {
        let state = tags.as_mut().poll(context);
        let _ = with_task_io_ring_mut(|ring| ring.submit());
        state
    });
    let events = pin!(async {
        loop {
            ring.readable().await.map_err(failed)?.clear_ready();
            ublk_reap_io_events_with_update_queue(q, false, None, |event| ublk_wake_task(event.user_data(), event))?;
        }
    });
    match select(pin!(tags), events).await {
        Either::Left(_) => Ok(()),
        Either::Right((result, _)) => result,
    }
}

fn run_queue(number: u16, device: &UblkDev, tenant: &Tenant) -> Result<(), Failure> {
    let q = UblkQueue::new(number, device)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    Ok(runtime.block_on(serve_queue(&q, tenant))?)
}

/// Creates the device of a volume and serves it until it is stopped.
fn run_volume(mut file: File, name: &str, tenant: &Tenant, began: &std::sync::mpsc::Sender<u32>) -> Result<(), Failure> {
    let bytes = file.seek(SeekFrom::End(0))?;
    let ctrl = UblkCtrlBuilder::default()
        .name("ublk-target")
        .depth(DEPTH)
        .nr_queues(1)
        .io_buf_bytes(BUFFER_BYTES)
        .dev_flags(UblkFlags::UBLK_DEV_F_ADD_DEV)
        .build()?;
    // The file stays open until this function returns, after the device has ended.
    let fd = file.as_raw_fd();
    let parameters = move |device: &mut UblkDev| {
        device.set_default_params(bytes);
        device.tgt.fds[1] = fd;
        device.tgt.nr_fds = 2;
        Ok(())
    };
    let (tenant, name, began) = (tenant.clone(), name.to_owned(), began.clone());
    let queue = move |number, device: &UblkDev| {
        if let Err(error) = run_queue(number, device, &tenant) {
            eprintln!("ublk-target: queue {number}: {error}");
        }
    };
    let started = move |ctrl: &UblkCtrl| {
        println!("/dev/ublkb{}: {name}", ctrl.dev_info().dev_id);
        let _ = began.send(ctrl.dev_info().dev_id);
    };
    ctrl.run_target(parameters, queue, started)?;
    Ok(())
}

fn main() -> Result<(), Failure> {
    let volumes: Vec<_> = std::env::args().skip(1).collect();
    if volumes.is_empty() {
        return Err("usage: ublk-target WEIGHT=FILE...".into());
    }
    let settings = SharesSettings { in_service: 256, learns: true, ..SharesSettings::default() };
    let shares = AsyncShares::new(&settings)?;
    let (began, devices) = std::sync::mpsc::channel();
    let mut threads = Vec::new();
    for volume in volumes {
        let (weight, path) = volume.split_once('=').ok_or(format!("'{volume}' is not WEIGHT=FILE"))?;
        let file = OpenOptions::new().read(true).write(true).custom_flags(O_DIRECT).open(path)?;
        let tenant = Tenant { shares: shares.clone(), id: shares.add_tenant(weight.parse()?)? };
        let (path, began) = (path.to_owned(), began.clone());
        threads.push(thread::spawn(move || run_volume(file, &path, &tenant, &began)));
    }
    drop(began);
    let devices: Vec<u32> = devices.iter().take(threads.len()).collect();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut end = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())?;
        let ended = pin!(end.recv());
        select(pin!(tokio::signal::ctrl_c()), ended).await;
        Ok::<_, std::io::Error>(())
    })?;
    for device in devices {
        UblkCtrl::new_simple(i32::try_from(device)?)?.kill_dev()?;
    }
    for thread in threads {
        thread.join().map_err(|_| "a thread panicked")??;
    }
    Ok(())
}
