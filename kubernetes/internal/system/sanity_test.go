package system

import (
	"os"
	"os/exec"
	"regexp"
	"testing"
)

// The driver passes csi-sanity of kubernetes-csi/csi-test, unchanged.
func TestSanity(t *testing.T) {
	need(t, "csi-sanity")
	r := start(t, "node")
	arguments := []string{
		"-csi.endpoint", "unix:" + r.path("csi.sock"), "-csi.mountdir", r.path("mount"), "-csi.stagingdir", r.path("staging"),
		"-csi.testvolumesize", "67108864", "-csi.testvolumeexpandsize", "134217728", "-csi.testnodevolumeattachlimit",
		"-csi.testvolumeparameters", r.write("parameters.yaml", "weight: \"800\"\nread_bps_max: 500MiB\n"),
		"-csi.testvolumemutableparameters", r.write("mutable.yaml", "weight: \"100\"\nlatency_target_us: \"5000\"\n"),
		"-ginkgo.no-color",
	}
	for _, access := range []string{"mount", "block"} {
		said, err := exec.Command("csi-sanity", append(arguments, "-csi.testvolumeaccesstype", access)...).CombinedOutput()
		if err != nil {
			t.Fatalf("csi-sanity, %s: %v\n%s", access, err, said)
		}
		for _, line := range regexp.MustCompile(`(?m)^(Ran|SUCCESS).*$`).FindAllString(string(said), -1) {
			t.Logf("csi-sanity, %s: %s", access, line)
		}
	}
	if entries, err := os.ReadDir(r.path("root/volumes")); err != nil || len(entries) != 0 {
		t.Errorf("volumes are left: %v, %v", entries, err)
	}
	if len(r.loops()) != 0 || len(r.mounts()) != 0 {
		t.Errorf("devices %v and mounts %v are left", r.loops(), r.mounts())
	}
}
