//! The calibrated parameter sets for the tests of the flash model. Source:
//! docs/specifications/devices.md, section 10.

use hoistway_device::FlashParameters;

/// SATA-II MLC SSD of 2010.
pub fn ssd() -> FlashParameters {
    FlashParameters::default()
}

/// SATA/SAS SSD of 2016.
pub fn ssd_lsi() -> FlashParameters {
    FlashParameters {
        planes: 2,
        page_kib: 8,
        read_ns: 60_000,
        program_ns: 1_300_000,
        erase_ns: 3_800_000,
        channel_kb_per_s: 200_000,
        link_kb_per_s: 520_000,
        command_ns: 33_000,
        write_ack_ns: 25_000,
        serial_ns: 2_000,
        write_buffer_kib: 8_192,
        overprovision_millionths: 280_000,
        max_programs: 64,
        read_priority: 1,
        depth: 32,
        ..FlashParameters::default()
    }
}

/// Plextor PX-256M5S, 2012.
pub fn ssd_plextor() -> FlashParameters {
    FlashParameters {
        planes: 2,
        page_kib: 8,
        program_ns: 1_100_000,
        erase_ns: 3_800_000,
        channel_kb_per_s: 200_000,
        link_kb_per_s: 530_000,
        command_ns: 45_000,
        write_ack_ns: 20_000,
        serial_ns: 13_500,
        write_buffer_kib: 8_192,
        overprovision_millionths: 100_000,
        read_priority: 1,
        depth: 32,
        ..FlashParameters::default()
    }
}

/// Data-centre drive on PCIe 3 x4.
pub fn nvme() -> FlashParameters {
    FlashParameters {
        channels: 16,
        planes: 4,
        page_kib: 16,
        pages_per_block: 256,
        read_ns: 58_000,
        read_jitter_ns: 12_000,
        program_ns: 1_800_000,
        erase_ns: 5_000_000,
        channel_kb_per_s: 800_000,
        link_kb_per_s: 3_300_000,
        duplex: 1,
        command_ns: 8_000,
        write_ack_ns: 8_000,
        serial_ns: 1_200,
        write_buffer_kib: 65_536,
        overprovision_millionths: 280_000,
        max_programs: 128,
        read_priority: 2,
        suspend_ns: 8_000,
        depth: 1_023,
        hardware_queues: 16,
        power_loss_protection: 1,
        ..FlashParameters::default()
    }
}

/// 32 chips behind 8 channels, MQSim's defaults. Source: docs/specifications/devices.md, section
/// 13, case 44.
pub fn mqsim() -> FlashParameters {
    FlashParameters {
        page_kib: 8,
        planes: 2,
        read_ns: 75_000,
        read_jitter_ns: 0,
        channel_kb_per_s: 333_000,
        link_kb_per_s: 4_000_000,
        duplex: 1,
        command_ns: 0,
        serial_ns: 0,
        write_buffer_kib: 8_192,
        die_hold: 1,
        depth: 64,
        ..FlashParameters::default()
    }
}
