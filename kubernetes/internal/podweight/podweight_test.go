package podweight

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/containerd/nri/pkg/adaptation"
	"github.com/containerd/nri/pkg/api"
)

// Control groups: real ones below the directory in HOISTWAY_CGROUPS, as the guest of kernel/boot has them with all files,
// or else a directory with files of their names.
type groups struct {
	*testing.T
	root string
	real bool
}

func newGroups(t *testing.T) groups {
	if root := os.Getenv("HOISTWAY_CGROUPS"); root != "" {
		return groups{t, root, true}
	}
	root := t.TempDir()
	return groups{t, root, false}
}

// add makes a group and those above it.
func (g groups) add(path string) {
	g.Helper()
	above := g.root
	for _, part := range strings.Split(path, "/") {
		g.file(above, "cgroup.subtree_control")
		above = filepath.Join(above, part)
		if err := os.Mkdir(above, 0o755); err != nil && !os.IsExist(err) {
			g.Fatal(err)
		}
		if g.real {
			g.Cleanup(func() { _ = os.Remove(above) })
		}
	}
	for _, name := range files {
		g.file(above, name)
	}
}

// file makes what a kernel would have made.
func (g groups) file(group, name string) {
	if g.real {
		return
	}
	if err := os.WriteFile(filepath.Join(group, name), []byte("default 100\n"), 0o644); err != nil {
		g.Fatal(err)
	}
}

func (g groups) expect(path string, weight int) {
	g.Helper()
	for _, name := range files {
		text, err := os.ReadFile(filepath.Join(g.root, path, name))
		if want := fmt.Sprintf("default %d\n", weight); err != nil || !strings.HasPrefix(string(text), want) {
			g.Errorf("%s/%s: %q, %v; and not %q", path, name, text, err, want)
		}
	}
}

func pod(name, parent, weight string) *api.PodSandbox {
	made := &api.PodSandbox{Id: name, Name: name, Uid: name, Namespace: "default", Linux: &api.LinuxPodSandbox{CgroupParent: parent}}
	if weight != "" {
		made.Annotations = map[string]string{Annotation: weight}
	}
	return made
}

// runtime is the runtime's side of NRI, from the library that containerd and CRI-O use.
type runtime struct {
	*adaptation.Adaptation
	synchronized chan struct{}
}

func start(t *testing.T, socket string, running ...*api.PodSandbox) runtime {
	// One of each plugin that connects.
	synchronized := make(chan struct{}, 8)
	sync := func(ctx context.Context, deliver adaptation.SyncCB) error {
		_, err := deliver(ctx, running, nil)
		synchronized <- struct{}{}
		return err
	}
	update := func(context.Context, []*api.ContainerUpdate) ([]*api.ContainerUpdate, error) { return nil, nil }
	made, err := adaptation.New("test", "1", sync, update, adaptation.WithPluginPath(t.TempDir()),
		adaptation.WithPluginConfigPath(t.TempDir()), adaptation.WithSocketPath(socket))
	if err != nil {
		t.Fatal(err)
	}
	if err := made.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(made.Stop)
	// Of the plugins that the runtime starts itself: none.
	<-synchronized
	return runtime{made, synchronized}
}

// plugin starts the program and waits until the runtime knows it.
func (r runtime) plugin(t *testing.T, socket, root string) *exec.Cmd {
	program := exec.Command("hoistway-nri", "-socket", socket, "-cgroups", root)
	program.Stderr = os.Stderr
	if err := program.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = program.Process.Kill() })
	select {
	case <-r.synchronized:
	case <-time.After(time.Minute):
		t.Fatal("the plugin does not come")
	}
	// The runtime adds a plugin to its list when it has been synchronized.
	r.BlockPluginSync().Unblock()
	return program
}

func TestPodsGetTheirWeights(t *testing.T) {
	if _, err := exec.LookPath("hoistway-nri"); err != nil {
		t.Skip("no program hoistway-nri; ./check csi builds it")
	}
	g := newGroups(t)
	const burstable = "kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod1.slice"
	for _, path := range []string{burstable, "kubepods/pod2", "kubepods/pod3", "kubepods/pod4"} {
		g.add(path)
	}
	socket := filepath.Join(t.TempDir(), "nri.sock")
	running := start(t, socket, pod("old", "/kubepods/pod2", "300"), pod("wrong", "/kubepods/pod4", "none"))
	program := running.plugin(t, socket, g.root)
	// Those that ran before.
	g.expect("kubepods/pod2", 300)

	run := func(pod *api.PodSandbox) error {
		return running.RunPodSandbox(context.Background(), &adaptation.RunPodSandboxRequest{Pod: pod})
	}
	// By the name of a slice, as the systemd driver of kubelet gives it.
	if err := run(pod("db", "kubepods-burstable-pod1.slice", "800")); err != nil {
		t.Error(err)
	}
	g.expect(burstable, 800)
	if err := run(pod("ci", "/kubepods/pod3", "")); err != nil {
		t.Error(err)
	}
	for _, weight := range []string{"0", "10001", "-1", "heavy", "1.5"} {
		err := run(pod("ci", "/kubepods/pod3", weight))
		if want := fmt.Sprintf("pod default/ci: the annotation io.hoistway/weight = %q is not a whole number from 1 to 10000", weight); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v", err)
		}
	}
	if !g.real {
		g.expect("kubepods/pod3", 100)
	}
	// A pod whose group has no such file runs without a weight.
	if err := run(pod("lost", "/kubepods/none", "5")); err != nil {
		t.Error(err)
	}

	// After its death the plugin is started again, and sets the weights of all pods again.
	if err := program.Process.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	_ = program.Wait()
	if err := os.WriteFile(filepath.Join(g.root, "kubepods/pod2/io.weight"), []byte("default 50\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	running.plugin(t, socket, g.root)
	g.expect("kubepods/pod2", 300)
}

func TestGroupPath(t *testing.T) {
	for parent, path := range map[string]string{
		"/kubepods/burstable/pod1": "/kubepods/burstable/pod1",
		"kubepods.slice":           "/kubepods.slice",
		"kubepods-pod1_2.slice":    "/kubepods.slice/kubepods-pod1_2.slice",
		"/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-podx.slice": "/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-podx.slice",
		"../../etc": "/etc",
	} {
		if found := groupPath(parent); found != path {
			t.Errorf("%s: %s", parent, found)
		}
	}
}
