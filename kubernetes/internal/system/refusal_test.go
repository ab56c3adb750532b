package system

import (
	"context"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

func expect(t *testing.T, err error, code codes.Code, say string) {
	t.Helper()
	if status.Code(err) != code || !strings.Contains(err.Error(), say) {
		t.Errorf("%v, and not %s: %s", err, code, say)
	}
}

// A wrong parameter is refused with its name, its value and the range, by both calls that take one, and changes nothing.
func TestParametersAreChecked(t *testing.T) {
	r := start(t, "node")
	ctx := context.Background()
	request := &csi.CreateVolumeRequest{
		Name: "pvc-1", VolumeCapabilities: []*csi.VolumeCapability{block}, CapacityRange: &csi.CapacityRange{RequiredBytes: size},
		Parameters: map[string]string{"weight": "10001"},
	}
	_, err := r.CreateVolume(ctx, request)
	expect(t, err, codes.InvalidArgument, `weight = "10001" is not a whole number from 1 to 10000`)
	request.Parameters = map[string]string{"wieght": "10"}
	_, err = r.CreateVolume(ctx, request)
	expect(t, err, codes.InvalidArgument, `there is no parameter "wieght"; there are: burst_ms,`)
	// The class of attributes counts where both say something.
	request.Parameters, request.MutableParameters = map[string]string{"weight": "100"}, map[string]string{"weight": "200"}
	created, err := r.CreateVolume(ctx, request)
	r.done(err)
	volume := created.GetVolume().GetVolumeId()
	staged := &csi.NodeStageVolumeRequest{VolumeId: volume, StagingTargetPath: r.path("staging"), VolumeCapability: block}
	_, err = r.NodeStageVolume(ctx, staged)
	r.done(err)
	_, err = r.ControllerModifyVolume(ctx, &csi.ControllerModifyVolumeRequest{
		VolumeId: volume, MutableParameters: map[string]string{"latency_target_us": "5ms", "weight": "5"},
	})
	expect(t, err, codes.InvalidArgument, `latency_target_us = "5ms" is not a whole number from 0 to 4294967295`)
	if found := r.groups()["pvc-1"]; found.Weight != 200 {
		t.Errorf("%+v", found)
	}
	// What the server refuses is not kept: here because of the operator's part of the configuration.
	head, err := os.ReadFile(r.path("head.toml"))
	r.done(err)
	r.write("head.toml", string(head)+"mistake = 1\n")
	modify := &csi.ControllerModifyVolumeRequest{VolumeId: volume, MutableParameters: map[string]string{"weight": "300"}}
	_, err = r.ControllerModifyVolume(ctx, modify)
	expect(t, err, codes.Internal, "mistake")
	r.write("head.toml", string(head))
	if record, err := os.ReadFile(r.path("root/volumes/pvc-1/volume.json")); err != nil || !strings.Contains(string(record), `"weight": 200`) {
		t.Errorf("%s, %v", record, err)
	}
	// A later change is in force when the call is answered.
	begin := time.Now()
	_, err = r.ControllerModifyVolume(ctx, &csi.ControllerModifyVolumeRequest{VolumeId: volume, MutableParameters: map[string]string{"weight": "900"}})
	r.done(err)
	if found := r.groups()["pvc-1"]; found.Weight != 900 {
		t.Errorf("%+v", found)
	}
	t.Logf("changed within %s", time.Since(begin))
	_, err = r.DeleteVolume(ctx, &csi.DeleteVolumeRequest{VolumeId: volume})
	expect(t, err, codes.FailedPrecondition, "the volume pvc-1 is in use")
	_, err = r.NodeUnstageVolume(ctx, &csi.NodeUnstageVolumeRequest{VolumeId: volume, StagingTargetPath: r.path("staging")})
	r.done(err)
}

// Without its server the driver refuses; the same calls succeed when the server is back, which serves what it has served
// before the driver says anything.
func TestServerMayBeAway(t *testing.T) {
	r := start(t, "node")
	ctx := context.Background()
	created, err := r.CreateVolume(ctx, &csi.CreateVolumeRequest{
		Name: "pvc-2", VolumeCapabilities: []*csi.VolumeCapability{block}, CapacityRange: &csi.CapacityRange{RequiredBytes: size},
	})
	r.done(err)
	volume := created.GetVolume().GetVolumeId()
	stage := &csi.NodeStageVolumeRequest{VolumeId: volume, StagingTargetPath: r.path("staging"), VolumeCapability: block}
	unstage := &csi.NodeUnstageVolumeRequest{VolumeId: volume, StagingTargetPath: r.path("staging")}
	r.server.end(syscall.SIGKILL)
	_, err = r.NodeStageVolume(ctx, stage)
	expect(t, err, codes.Unavailable, "no answer of hoistway serve")
	r.startServer()
	_, err = r.NodeStageVolume(ctx, stage)
	r.done(err)
	r.server.end(syscall.SIGKILL)
	r.driver.end(syscall.SIGKILL)
	r.startServer()
	if found := r.groups(); found["pvc-2"].Path == "" {
		t.Errorf("the server has %v", found)
	}
	r.startDriver(0)
	_, err = r.NodeUnstageVolume(ctx, unstage)
	r.done(err)
}

// A volume that the server refuses is taken out of its configuration again, so that others are not refused with it.
func TestRefusedVolumeHindersNoOther(t *testing.T) {
	r := start(t, "node")
	ctx := context.Background()
	identities := []string{}
	for _, name := range []string{"pvc-3", "pvc-4"} {
		created, err := r.CreateVolume(ctx, &csi.CreateVolumeRequest{
			Name: name, VolumeCapabilities: []*csi.VolumeCapability{block}, CapacityRange: &csi.CapacityRange{RequiredBytes: size},
		})
		r.done(err)
		identities = append(identities, created.GetVolume().GetVolumeId())
	}
	// Something that no server takes.
	image := r.path("root/volumes/pvc-3/image")
	r.done(os.Rename(image, image+".away"))
	r.done(os.Mkdir(image, 0o700))
	// It is not made blank, as a new volume is.
	record := r.path("root/volumes/pvc-3/volume.json")
	text, err := os.ReadFile(record)
	r.done(err)
	r.done(os.WriteFile(record, []byte(strings.Replace(string(text), `"has_data": false`, `"has_data": true`, 1)), 0o600))
	_, err = r.NodeStageVolume(ctx, &csi.NodeStageVolumeRequest{VolumeId: identities[0], StagingTargetPath: r.path("a"), VolumeCapability: block})
	expect(t, err, codes.Internal, "hoistway serve refuses")
	_, err = r.NodeStageVolume(ctx, &csi.NodeStageVolumeRequest{VolumeId: identities[1], StagingTargetPath: r.path("b"), VolumeCapability: block})
	r.done(err)
	r.done(os.Remove(image))
	r.done(os.Rename(image+".away", image))
	_, err = r.NodeStageVolume(ctx, &csi.NodeStageVolumeRequest{VolumeId: identities[0], StagingTargetPath: r.path("a"), VolumeCapability: block})
	r.done(err)
	for at, name := range []string{"a", "b"} {
		_, err = r.NodeUnstageVolume(ctx, &csi.NodeUnstageVolumeRequest{VolumeId: identities[at], StagingTargetPath: r.path(name)})
		r.done(err)
	}
}

// A volume with more bytes than there are is refused, and GetCapacity says how many there are.
func TestNoMoreThanThereIs(t *testing.T) {
	r := start(t, "node")
	ctx := context.Background()
	capacity, err := r.GetCapacity(ctx, &csi.GetCapacityRequest{})
	r.done(err)
	request := &csi.CreateVolumeRequest{
		Name: "pvc-5", VolumeCapabilities: []*csi.VolumeCapability{block},
		CapacityRange: &csi.CapacityRange{RequiredBytes: 4 * capacity.GetAvailableCapacity()},
	}
	_, err = r.CreateVolume(ctx, request)
	expect(t, err, codes.ResourceExhausted, "has room for")
	elsewhere := &csi.Topology{Segments: map[string]string{"io.hoistway.csi/node": "other"}}
	request.CapacityRange.RequiredBytes = size
	request.AccessibilityRequirements = &csi.TopologyRequirement{Requisite: []*csi.Topology{elsewhere}}
	_, err = r.CreateVolume(ctx, request)
	expect(t, err, codes.ResourceExhausted, "on another node than node")
	capacity, err = r.GetCapacity(ctx, &csi.GetCapacityRequest{AccessibleTopology: elsewhere})
	r.done(err)
	if capacity.GetAvailableCapacity() != 0 {
		t.Errorf("%v", capacity)
	}
	// What a failed call has made is gone.
	if entries, err := os.ReadDir(r.path("root/volumes")); err != nil || len(entries) != 0 {
		t.Errorf("%v, %v", entries, err)
	}
}

// A read-only volume cannot be written through the path of its pod, and a mounted one tells how full it is.
func TestReadOnlyAndUsage(t *testing.T) {
	r := start(t, "node")
	ctx := context.Background()
	l := &life{rig: r, name: "pvc-6", staging: r.path("staging"), target: r.path("target")}
	r.done(l.create(ctx))
	r.done(l.stage(ctx))
	_, err := r.NodePublishVolume(ctx, &csi.NodePublishVolumeRequest{
		VolumeId: l.volume, StagingTargetPath: l.staging, TargetPath: l.target, VolumeCapability: mounted, Readonly: true,
	})
	r.done(err)
	if err := exec.Command("touch", l.target+"/file").Run(); err == nil {
		t.Error("it can be written")
	}
	usage, err := r.NodeGetVolumeStats(ctx, &csi.NodeGetVolumeStatsRequest{VolumeId: l.volume, VolumePath: l.target})
	r.done(err)
	if bytes := usage.GetUsage()[0]; bytes.GetTotal() < size/2 || bytes.GetTotal() > size || bytes.GetUsed()+bytes.GetAvailable() > bytes.GetTotal() {
		t.Errorf("%v", bytes)
	}
	r.done(l.unpublish(ctx))
	r.done(l.unstage(ctx))
	r.done(l.remove(ctx))
	r.done(l.nothingIsLeft())
}
