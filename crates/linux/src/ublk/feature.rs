//! What the driver can do, and what a device is made with. The driver tells by UBLK_U_CMD_GET_FEATURES,
//! so nothing here depends on the kernel's version.
//!
//! Not asked for: UBLK_F_PER_IO_DAEMON, because each queue has one thread; UBLK_F_NO_AUTO_PART_SCAN, because
//! partitions of exports appear by themselves, and users mount them.

/// A device outlives its server, which may be replaced (Linux 6.1).
pub const USER_RECOVERY: u64 = 1 << 3;
/// Requests that the last server had not answered go to the next one (Linux 6.1).
pub const USER_RECOVERY_REISSUE: u64 = 1 << 4;
/// A user without privileges may create devices (Linux 6.3).
pub const UNPRIVILEGED: u64 = 1 << 5;
/// Data is moved by reading and writing the character device, not into buffers that the server
/// names beforehand (Linux 6.5).
pub const USER_COPY: u64 = 1 << 7;
/// The size of a device can change while it is used: UBLK_F_UPDATE_SIZE (Linux 6.16).
pub const GROWTH: u64 = 1 << 10;
/// A request's memory is in the ring's table of registered buffers while the server has the request, so
/// that the backing is read into it and written from it: UBLK_F_AUTO_BUF_REG (Linux 6.16).
pub const AUTO_BUFFERS: u64 = 1 << 11;

/// The features to make a device with. `offered`: what the driver can do, 0 where it cannot tell.
/// `takes_buffers`: whether the backing can be given memory that the server itself cannot address.
///
/// Recovery is asked for in any case, because Linux has it since 6.1 and can tell only since 6.5. The
/// kernel gives a user without privileges neither recovery nor a way to the memory of requests but by
/// copies into buffers. Where the registration of a request's memory fails, its data is copied by the
/// character device.
pub const fn wanted(offered: u64, is_privileged: bool, takes_buffers: bool) -> u64 {
    if !is_privileged {
        return 0;
    }
    let copy = offered & USER_COPY;
    let zero_copy = if takes_buffers && copy != 0 { offered & AUTO_BUFFERS } else { 0 };
    USER_RECOVERY | USER_RECOVERY_REISSUE | copy | zero_copy
}

/// The names of the features of a device that concern its users, for reports.
pub fn names(features: u64) -> Vec<&'static str> {
    let all = [
        (AUTO_BUFFERS, "zero_copy"),
        (USER_COPY, "user_copy"),
        (USER_RECOVERY, "recovery"),
        (UNPRIVILEGED, "unprivileged"),
    ];
    all.into_iter().filter(|(bit, _)| features & bit != 0).map(|(_, name)| name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the drivers of three kernels answer: UBLK_F_ALL of drivers/block/ublk_drv.c.
    const LINUX_6_5: u64 = 0x0ff;
    const LINUX_6_12: u64 = 0x3ff;
    const LINUX_7_3: u64 = 0x1f_ffff;
    const RECOVERY: u64 = USER_RECOVERY | USER_RECOVERY_REISSUE;

    #[test]
    fn a_driver_is_asked_for_what_it_offers_and_no_more() {
        assert_eq!(wanted(0, true, true), RECOVERY);
        assert_eq!(wanted(LINUX_6_5, true, true), RECOVERY | USER_COPY);
        assert_eq!(wanted(LINUX_6_12, true, true), RECOVERY | USER_COPY);
        assert_eq!(wanted(LINUX_7_3, true, true), RECOVERY | USER_COPY | AUTO_BUFFERS);
    }

    #[test]
    fn memory_is_registered_only_where_its_data_could_be_copied_as_well() {
        assert_eq!(wanted(LINUX_7_3, true, false), RECOVERY | USER_COPY);
        assert_eq!(wanted(LINUX_7_3 & !USER_COPY, true, true), RECOVERY);
    }

    #[test]
    fn the_kernel_trusts_a_user_without_privileges_with_none_of_them() {
        assert_eq!(wanted(LINUX_7_3, false, true), 0);
    }

    #[test]
    fn reports_name_the_way_of_the_data_first() {
        assert_eq!(names(wanted(LINUX_7_3, true, true)), ["zero_copy", "user_copy", "recovery"]);
        assert_eq!(names(UNPRIVILEGED), ["unprivileged"]);
    }
}
