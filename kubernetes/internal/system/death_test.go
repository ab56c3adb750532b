package system

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// The driver writes its configuration, and has it taken over, before it listens.
const stepsOfStart = 3

// Each larger than the one before by more than a file system keeps for itself.
const size, sizeLater, sizeInUse = 64 << 20, 96 << 20, 160 << 20

// life is what happens to one volume, call after call.
type life struct {
	*rig
	name, volume, staging, target string
}

// call is one call of a life, and what must hold after it.
type call struct {
	name string
	do   func(*life, context.Context) error
	then func(*life) error
}

var calls = []call{
	{"create", (*life).create, nil},
	{"stage", (*life).stage, (*life).isExported},
	{"publish", (*life).publish, (*life).write},
	{"modify", (*life).modify, (*life).isModified},
	{"unpublish", (*life).unpublish, nil},
	{"unstage", (*life).unstage, nil},
	{"expand", (*life).expand, nil},
	{"stage again", (*life).stage, (*life).isModified},
	{"publish again", (*life).publish, (*life).read},
	{"expand in use", (*life).expandInUse, nil},
	{"expand the file system", (*life).expandFileSystem, (*life).isLarge},
	{"unpublish again", (*life).unpublish, nil},
	{"unstage again", (*life).unstage, nil},
	{"delete", (*life).remove, (*life).nothingIsLeft},
}

// Those that only some block devices can do.
var inUse = []string{"expand in use", "expand the file system"}

// growsInUse asks the driver whether a mounted volume can grow.
func (r *rig) growsInUse(ctx context.Context) bool {
	answer, err := r.NodeGetCapabilities(ctx, &csi.NodeGetCapabilitiesRequest{})
	r.done(err)
	return slices.ContainsFunc(answer.GetCapabilities(), func(one *csi.NodeServiceCapability) bool {
		return one.GetRpc().GetType() == csi.NodeServiceCapability_RPC_EXPAND_VOLUME
	})
}

// possible are the calls that this process and the block devices can do.
func (r *rig) possible(ctx context.Context) []call {
	r.Helper()
	mayGrow, growsInUse := maySetSizes(r.T), r.growsInUse(ctx)
	if !mayGrow {
		r.Log("skipped: volumes that grow: this process has no CAP_SYS_RESOURCE")
	}
	return slices.DeleteFunc(slices.Clone(calls), func(one call) bool {
		return strings.HasPrefix(one.name, "expand") && !mayGrow || slices.Contains(inUse, one.name) && !growsInUse
	})
}

func (l *life) create(ctx context.Context) error {
	answer, err := l.CreateVolume(ctx, &csi.CreateVolumeRequest{
		Name: l.name, CapacityRange: &csi.CapacityRange{RequiredBytes: size},
		VolumeCapabilities: []*csi.VolumeCapability{mounted}, Parameters: map[string]string{"weight": "800"},
	})
	l.volume = answer.GetVolume().GetVolumeId()
	return err
}

func (l *life) stage(ctx context.Context) error {
	_, err := l.NodeStageVolume(ctx, &csi.NodeStageVolumeRequest{VolumeId: l.volume, StagingTargetPath: l.staging, VolumeCapability: mounted})
	return err
}

func (l *life) publish(ctx context.Context) error {
	_, err := l.NodePublishVolume(ctx, &csi.NodePublishVolumeRequest{
		VolumeId: l.volume, StagingTargetPath: l.staging, TargetPath: l.target, VolumeCapability: mounted,
	})
	return err
}

func (l *life) modify(ctx context.Context) error {
	_, err := l.ControllerModifyVolume(ctx, &csi.ControllerModifyVolumeRequest{
		VolumeId: l.volume, MutableParameters: map[string]string{"weight": "300", "read_bps_max": "50MiB"},
	})
	return err
}

func (l *life) unpublish(ctx context.Context) error {
	_, err := l.NodeUnpublishVolume(ctx, &csi.NodeUnpublishVolumeRequest{VolumeId: l.volume, TargetPath: l.target})
	return err
}

func (l *life) unstage(ctx context.Context) error {
	_, err := l.NodeUnstageVolume(ctx, &csi.NodeUnstageVolumeRequest{VolumeId: l.volume, StagingTargetPath: l.staging})
	return err
}

func (l *life) expand(ctx context.Context) error { return l.grow(ctx, sizeLater) }

func (l *life) expandInUse(ctx context.Context) error { return l.grow(ctx, sizeInUse) }

func (l *life) grow(ctx context.Context, bytes int64) error {
	_, err := l.ControllerExpandVolume(ctx, &csi.ControllerExpandVolumeRequest{
		VolumeId: l.volume, CapacityRange: &csi.CapacityRange{RequiredBytes: bytes},
	})
	return err
}

func (l *life) expandFileSystem(ctx context.Context) error {
	_, err := l.NodeExpandVolume(ctx, &csi.NodeExpandVolumeRequest{
		VolumeId: l.volume, VolumePath: l.target, StagingTargetPath: l.staging, CapacityRange: &csi.CapacityRange{RequiredBytes: sizeInUse},
	})
	return err
}

func (l *life) remove(ctx context.Context) error {
	_, err := l.DeleteVolume(ctx, &csi.DeleteVolumeRequest{VolumeId: l.volume})
	return err
}

func (l *life) isExported() error {
	if found := l.groups()[l.name]; found.Weight != 800 {
		return fmt.Errorf("the group is %+v", found)
	}
	return nil
}

func (l *life) isModified() error {
	if found := l.groups()[l.name]; found.Weight != 300 || !strings.Contains(found.Max, "rbps=52428800") {
		return fmt.Errorf("the group is %+v", found)
	}
	return nil
}

// write leaves a file, durable.
func (l *life) write() error {
	file, err := os.Create(filepath.Join(l.target, "file"))
	if err != nil {
		return err
	}
	defer file.Close()
	if _, err := file.WriteString(l.name); err != nil {
		return err
	}
	return file.Sync()
}

// read finds the file and the larger file system.
func (l *life) read() error {
	text, err := os.ReadFile(filepath.Join(l.target, "file"))
	if err != nil || string(text) != l.name {
		return fmt.Errorf("the file has %q: %w", text, err)
	}
	if !maySetSizes(l.T) {
		return nil
	}
	return l.hasMoreThan(size)
}

func (l *life) isLarge() error { return l.hasMoreThan(sizeLater) }

func (l *life) hasMoreThan(bytes int64) error {
	var system syscall.Statfs_t
	if err := syscall.Statfs(l.target, &system); err != nil {
		return err
	}
	if found := int64(system.Blocks) * system.Bsize; found <= bytes {
		return fmt.Errorf("the file system has %d bytes", found)
	}
	return nil
}

func (l *life) nothingIsLeft() error {
	entries, err := os.ReadDir(l.path("root/volumes"))
	if err != nil || len(entries) > 0 {
		return fmt.Errorf("volumes are left: %v, %w", entries, err)
	}
	if len(l.loops()) > 0 || len(l.mounts()) > 0 {
		return fmt.Errorf("devices %v and mounts %v are left", l.loops(), l.mounts())
	}
	text, err := os.ReadFile(l.path("root/serve.toml"))
	if err != nil || strings.Count(string(text), "[[device.export]]") != 1 {
		return fmt.Errorf("the configuration has more than its own export: %w\n%s", err, text)
	}
	return nil
}

// maySetSizes says whether this process has CAP_SYS_RESOURCE, without which the kernel refuses to grow a mounted ext4.
func maySetSizes(t *testing.T) bool {
	t.Helper()
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "CapEff:\t")
	effective, err := strconv.ParseUint(rest[:16], 16, 64)
	if err != nil {
		t.Fatal(err)
	}
	return effective&(1<<unix.CAP_SYS_RESOURCE) != 0
}

// all does the calls of a life; `dies` comes before one of them.
func (l *life) all(ctx context.Context, calls []call, at int, dies func()) {
	l.Helper()
	for index, call := range calls {
		if index == at {
			dies()
		}
		if err := call.do(l, ctx); err != nil {
			l.Fatalf("%s: %s: %v", l.name, call.name, err)
		}
		if call.then == nil {
			continue
		}
		if err := call.then(l); err != nil {
			l.Fatalf("%s: after %s: %v", l.name, call.name, err)
		}
	}
}

// The driver is killed after every step of every call. The same call again succeeds each time, and at the end nothing is
// lost and nothing is left.
func TestDeathAfterEveryStep(t *testing.T) {
	r := start(t, "node")
	ctx, cancel := context.WithTimeout(context.Background(), 20*patience)
	defer cancel()
	calls := r.possible(ctx)
	for at, call := range calls {
		t.Run(call.name, func(t *testing.T) {
			r.T = t
			// The first call's include those of the start.
			steps := 1
			if at > 0 {
				steps += stepsOfStart
			}
			deaths := 0
			for ; r.dies(ctx, calls, at, steps); steps++ {
				deaths++
			}
			if deaths == 0 {
				t.Error("it was never killed")
			}
			t.Logf("%s: killed after each of %d steps", call.name, deaths)
		})
	}
	r.T = t
}

// The driver is killed at moments that no step marks, such as while a file system is made; its programs go on for a while.
// The call is repeated, as kubelet does, until it succeeds.
func TestDeathWhileStaging(t *testing.T) {
	r := start(t, "node")
	ctx, cancel := context.WithTimeout(context.Background(), 20*patience)
	defer cancel()
	lives, took, calls := 20, time.Duration(0), r.possible(ctx)
	for moment := range lives {
		l := &life{rig: r, name: fmt.Sprintf("pvc-%d", moment), staging: r.path("staging"), target: r.path("pods/target")}
		l.all(ctx, calls, 1, func() {
			answered := make(chan error, 1)
			go func() { answered <- l.stage(ctx) }()
			// Spread over what the call took the last time.
			time.Sleep(took * time.Duration(moment) / time.Duration(lives))
			r.driver.end(syscall.SIGKILL)
			<-answered
			r.startDriver(0)
			begin := time.Now()
			r.until("the call succeeds", func() bool {
				begin = time.Now()
				return l.stage(ctx) == nil
			})
			took = time.Since(begin)
		})
	}
}

// dies lives a life in which the driver is killed after a step of one call, and the call is repeated. It returns false if
// the call has fewer steps.
func (r *rig) dies(ctx context.Context, calls []call, at, steps int) (died bool) {
	l := &life{rig: r, name: fmt.Sprintf("pvc-%d-%d", at, steps), staging: r.path("staging"), target: r.path("pods/target")}
	l.all(ctx, calls, at, func() {
		r.driver.end(syscall.SIGTERM)
		r.startDriver(steps)
		err := calls[at].do(l, ctx)
		if died = status.Code(err) == codes.Unavailable; err != nil && !died {
			r.Fatalf("%s: %s: %v", l.name, calls[at].name, err)
		}
		r.driver.end(syscall.SIGKILL)
		r.startDriver(0)
	})
	return died
}
