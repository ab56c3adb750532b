// Package system tests the programs as a node runs them: a real `hoistway serve`, the driver as a process of its own, and
// the calls of the sidecars and of kubelet.
package system

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"hoistway/kubernetes/internal/step"
)

// How exports become block devices: fuse here, ublk in the guest of kernel/boot.
var attachment = func() string {
	if kind := os.Getenv("HOISTWAY_CSI_ATTACH"); kind != "" {
		return kind
	}
	return "fuse"
}()

// Patience is for machines that are busy with other tests.
const patience = 60 * time.Second

type rig struct {
	*testing.T
	// Directory of everything that this test makes.
	place  string
	node   string
	server *process
	driver *process
	// More arguments of the driver.
	more []string

	connection *grpc.ClientConn
	csi.ControllerClient
	csi.NodeClient
}

// need skips a test without the programs that `./check csi` builds, or without root.
func need(t *testing.T, programs ...string) {
	t.Helper()
	for _, program := range programs {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("no program %s; ./check csi builds those of the driver", program)
		}
	}
	if os.Getuid() != 0 {
		t.Skip("not root")
	}
	if _, err := os.Stat("/dev/fuse"); err != nil && attachment == "fuse" {
		t.Skip("no /dev/fuse")
	}
}

// start starts a server and a driver of the node, and connects to it.
func start(t *testing.T, node string, more ...string) *rig {
	t.Helper()
	need(t, "hoistway", "hoistway-csi", "losetup", "mkfs.ext4")
	if attachment == "fuse" {
		need(t, "nbdfuse")
	}
	place, err := os.MkdirTemp("", "csi")
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{T: t, place: place, node: node, more: more}
	t.Cleanup(r.clean)
	// The disks of test machines say that they rotate.
	r.write("head.toml", "[[device]]\nname = \"csi\"\nrotational = \"no\"\n")
	if said, err := r.command(nil, "-configure").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, said)
	}
	r.startServer()
	r.startDriver(0)
	return r
}

func (r *rig) path(name string) string { return filepath.Join(r.place, name) }

func (r *rig) write(name, text string) string {
	r.Helper()
	if err := os.WriteFile(r.path(name), []byte(text), 0o600); err != nil {
		r.Fatal(err)
	}
	return r.path(name)
}

// command is the driver with its options.
func (r *rig) command(environment []string, more ...string) *exec.Cmd {
	arguments := append([]string{"-node", r.node, "-endpoint", r.path("csi.sock"), "-root", r.path("root"), "-run", r.path("run"),
		"-serve-head", r.path("head.toml"), "-attach", attachment}, r.more...)
	command := exec.Command("hoistway-csi", append(arguments, more...)...)
	command.Env = append(os.Environ(), environment...)
	return command
}

func (r *rig) startServer() {
	r.Helper()
	r.server = r.begin(exec.Command("hoistway", "serve", r.path("root/serve.toml")), "serve.log")
	r.until("the server answers", func() bool {
		_, err := exec.Command("hoistway", "ctl", "--control", r.path("run/csi-control.sock"), "--json", "status").Output()
		return err == nil
	})
}

// startDriver starts the driver; it ends itself after so many steps, if the number is not 0.
func (r *rig) startDriver(steps int) {
	r.Helper()
	environment := []string{}
	if steps > 0 {
		environment = append(environment, fmt.Sprintf("%s=%d", step.Variable, steps))
	}
	_ = os.Remove(r.path("csi.sock"))
	r.driver = r.begin(r.command(environment), "csi.log")
	// The file is there before it takes connections.
	r.until("the driver listens", func() bool {
		try, err := net.Dial("unix", r.path("csi.sock"))
		if err == nil {
			_ = try.Close()
		}
		return err == nil || r.driver.hasEnded()
	})
	// A new one: an old one waits before it tries again.
	connection, err := grpc.NewClient("unix:"+r.path("csi.sock"), grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithAuthority("localhost"))
	r.done(err)
	if r.connection != nil {
		_ = r.connection.Close()
	}
	r.connection = connection
	r.ControllerClient, r.NodeClient = csi.NewControllerClient(connection), csi.NewNodeClient(connection)
}

// process is a program that runs; `ended` is closed when it has ended.
type process struct {
	*exec.Cmd
	ended chan struct{}
}

// begin starts a program with a log.
func (r *rig) begin(command *exec.Cmd, log string) *process {
	r.Helper()
	file, err := os.OpenFile(r.path(log), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		r.Fatal(err)
	}
	defer file.Close()
	command.Stdout, command.Stderr = file, file
	if err := command.Start(); err != nil {
		r.Fatal(err)
	}
	started := &process{command, make(chan struct{})}
	go func() {
		_ = command.Wait()
		close(started.ended)
	}()
	return started
}

func (p *process) hasEnded() bool {
	select {
	case <-p.ended:
		return true
	default:
		return false
	}
}

// end sends a signal and waits for the end.
func (p *process) end(signal syscall.Signal) {
	if p != nil {
		_ = p.Process.Signal(signal)
		<-p.ended
	}
}

func (r *rig) until(what string, done func() bool) {
	r.Helper()
	for end := time.Now().Add(patience); !done(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			r.Fatalf("not within %s: %s\n%s", patience, what, r.logs())
		}
	}
}

func (r *rig) logs() string {
	text := ""
	for _, name := range []string{"csi.log", "serve.log"} {
		log, _ := os.ReadFile(r.path(name))
		text += fmt.Sprintf("--- %s\n%s", name, log[max(0, len(log)-4000):])
	}
	return text
}

// clean takes away what a failed test has left.
func (r *rig) clean() {
	if r.Failed() {
		r.Log(r.logs())
	}
	if r.connection != nil {
		_ = r.connection.Close()
	}
	r.driver.end(syscall.SIGKILL)
	for _, mounted := range r.mounts() {
		_ = syscall.Unmount(mounted, syscall.MNT_DETACH)
	}
	for _, device := range r.loops() {
		_ = exec.Command("losetup", "--detach", device).Run()
	}
	for _, mounted := range r.mounts() {
		_ = syscall.Unmount(mounted, syscall.MNT_DETACH)
	}
	r.server.end(syscall.SIGTERM)
	_ = os.RemoveAll(r.place)
}

// mounts are the mount points of this test, the last first.
func (r *rig) mounts() []string {
	text, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		r.Fatal(err)
	}
	found := []string{}
	for _, line := range strings.Split(string(text), "\n") {
		if fields := strings.Fields(line); len(fields) > 4 && strings.HasPrefix(fields[4], r.place) {
			found = append([]string{fields[4]}, found...)
		}
	}
	return found
}

// loops are the loop devices of this test.
func (r *rig) loops() []string {
	paths, _ := filepath.Glob("/sys/block/loop*/loop/backing_file")
	found := []string{}
	for _, path := range paths {
		if file, err := os.ReadFile(path); err == nil && strings.HasPrefix(string(file), r.place) {
			found = append(found, "/dev/"+strings.Split(path, "/")[3])
		}
	}
	return found
}

func (r *rig) done(err error) {
	r.Helper()
	if err != nil {
		r.Fatal(err)
	}
}

// group is what the server says of the group of a volume.
type group struct {
	Path   string `json:"path"`
	Weight uint64 `json:"weight"`
	Max    string `json:"io.max"`
}

func (r *rig) groups() map[string]group {
	r.Helper()
	text, err := exec.Command("hoistway", "ctl", "--control", r.path("run/csi-control.sock"), "--json", "status").Output()
	if err != nil {
		r.Fatal(err)
	}
	var answer struct {
		Ok struct {
			Groups []group `json:"groups"`
		} `json:"ok"`
	}
	if err := json.Unmarshal(text, &answer); err != nil {
		r.Fatal(err)
	}
	found := map[string]group{}
	for _, entry := range answer.Ok.Groups {
		found[entry.Path] = entry
	}
	return found
}

var (
	mounted = &csi.VolumeCapability{
		AccessMode: &csi.VolumeCapability_AccessMode{Mode: csi.VolumeCapability_AccessMode_SINGLE_NODE_WRITER},
		AccessType: &csi.VolumeCapability_Mount{Mount: &csi.VolumeCapability_MountVolume{}},
	}
	block = &csi.VolumeCapability{
		AccessMode: &csi.VolumeCapability_AccessMode{Mode: csi.VolumeCapability_AccessMode_SINGLE_NODE_WRITER},
		AccessType: &csi.VolumeCapability_Block{Block: &csi.VolumeCapability_BlockVolume{}},
	}
)
