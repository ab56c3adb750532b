//! The calibrated parameter sets for the tests of the flash model. Source:
//! docs/specifications/devices.md, section 10.

use hoistway_device::FlashParameters;

/// SATA-II MLC SSD of 2010.
pub fn ssd() -> FlashParameters {
    FlashParameters::default()
}

/// SATA/SAS SSD of 2016.
pub fn ssd_lsi() -> FlashParameters {
    FlashParameters::default().with(|flash| {
        flash.layout.planes = 2;
        flash.layout.page_kib = 8;
        flash.dies.read_ns = 60_000;
        flash.dies.program_ns = 1_300_000;
        flash.dies.erase_ns = 3_800_000;
        flash.dies.channel_kb_per_s = 200_000;
        flash.controller.link_kb_per_s = 520_000;
        flash.controller.command_ns = 33_000;
        flash.controller.write_ack_ns = 25_000;
        flash.controller.serial_ns = 2_000;
        flash.buffer.write_buffer_kib = 8_192;
        flash.layout.overprovision_millionths = 280_000;
        flash.buffer.max_programs = 64;
        flash.dies.read_priority = 1;
        flash.controller.depth = 32;
    })
}

/// Plextor PX-256M5S, 2012.
pub fn ssd_plextor() -> FlashParameters {
    FlashParameters::default().with(|flash| {
        flash.layout.planes = 2;
        flash.layout.page_kib = 8;
        flash.dies.program_ns = 1_100_000;
        flash.dies.erase_ns = 3_800_000;
        flash.dies.channel_kb_per_s = 200_000;
        flash.controller.link_kb_per_s = 530_000;
        flash.controller.command_ns = 45_000;
        flash.controller.write_ack_ns = 20_000;
        flash.controller.serial_ns = 13_500;
        flash.buffer.write_buffer_kib = 8_192;
        flash.layout.overprovision_millionths = 100_000;
        flash.dies.read_priority = 1;
        flash.controller.depth = 32;
    })
}

/// Data-centre drive on PCIe 3 x4.
pub fn nvme() -> FlashParameters {
    FlashParameters::default().with(|flash| {
        flash.layout.channels = 16;
        flash.layout.planes = 4;
        flash.layout.page_kib = 16;
        flash.layout.pages_per_block = 256;
        flash.dies.read_ns = 58_000;
        flash.dies.read_jitter_ns = 12_000;
        flash.dies.program_ns = 1_800_000;
        flash.dies.erase_ns = 5_000_000;
        flash.dies.channel_kb_per_s = 800_000;
        flash.controller.link_kb_per_s = 3_300_000;
        flash.controller.duplex = 1;
        flash.controller.command_ns = 8_000;
        flash.controller.write_ack_ns = 8_000;
        flash.controller.serial_ns = 1_200;
        flash.buffer.write_buffer_kib = 65_536;
        flash.layout.overprovision_millionths = 280_000;
        flash.buffer.max_programs = 128;
        flash.dies.read_priority = 2;
        flash.dies.suspend_ns = 8_000;
        flash.controller.depth = 1_023;
        flash.controller.hardware_queues = 16;
        flash.buffer.power_loss_protection = 1;
    })
}

/// 32 chips behind 8 channels, MQSim's defaults. Source: docs/specifications/devices.md, section
/// 13, case 44.
pub fn mqsim() -> FlashParameters {
    FlashParameters::default().with(|flash| {
        flash.layout.page_kib = 8;
        flash.layout.planes = 2;
        flash.dies.read_ns = 75_000;
        flash.dies.read_jitter_ns = 0;
        flash.dies.channel_kb_per_s = 333_000;
        flash.controller.link_kb_per_s = 4_000_000;
        flash.controller.duplex = 1;
        flash.controller.command_ns = 0;
        flash.controller.serial_ns = 0;
        flash.buffer.write_buffer_kib = 8_192;
        flash.dies.die_hold = 1;
        flash.controller.depth = 64;
    })
}
