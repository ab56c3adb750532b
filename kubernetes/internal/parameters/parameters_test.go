package parameters

import (
	"strings"
	"testing"
)

func TestValuesInTheirUnits(t *testing.T) {
	for text, bytes := range map[string]uint64{
		"4096": 4096, "512B": 512, "4k": 4096, "4Ki": 4096, "4KiB": 4096, "50MiB": 50 << 20, "50M/s": 50 << 20, "4kB": 4000,
		"4MB": 4_000_000, "0": 0, "1g": 1 << 30,
	} {
		set, err := Check(map[string]string{"read_bps_max": text})
		if err != nil || set["read_bps_max"] != bytes {
			t.Errorf("%s: %v, %v", text, set, err)
		}
	}
	set, err := Check(map[string]string{"read_iops_max": "20k", "weight": "800", "csi.storage.k8s.io/pvc/name": "db"})
	if err != nil || len(set) != 2 || set["read_iops_max"] != 20_000 || set["weight"] != 800 {
		t.Errorf("%v, %v", set, err)
	}
}

func TestErrorsNameParameterValueAndRange(t *testing.T) {
	for _, test := range []struct{ name, value, say string }{
		{"weight", "0", `weight = "0" is not a whole number from 1 to 10000`},
		{"weight", "10001", "from 1 to 10000"},
		{"weight", "", `weight = "" is not`},
		{"weight", "-1", "from 1 to 10000"},
		{"weight", "1k", "a whole number"},
		{"weight", "1.5", "a whole number"},
		{"weight", "99999999999999999999999", "from 1 to 10000"},
		{"read_bps_max", "4KB", "a size per second, such as 50MiB, from 0"},
		{"read_bps_max", "4kb", "a size per second"},
		{"read_bps_max", "9999999999999P", "a size per second"},
		{"read_bps_max", "MiB", "a size per second"},
		{"write_iops_max", "5KiB", "a number of requests per second, such as 20k, from 0 to 4294967294"},
		{"latency_target_us", "5ms", "from 0 to 4294967295"},
		{"burst_ms", "3600001", "from 1 to 3600000"},
		{"wieght", "5", `there is no parameter "wieght"; there are: burst_ms, latency_target_us,`},
	} {
		_, err := Check(map[string]string{test.name: test.value})
		if err == nil || !strings.Contains(err.Error(), test.say) {
			t.Errorf("%s = %s: %v", test.name, test.value, err)
		}
	}
}
