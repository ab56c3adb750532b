package attach

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"hoistway/kubernetes/internal/step"
)

// Fuse shows an export as a file by nbdfuse and makes a loop device of it. It needs no module that a container lacks,
// and is meant for tests: the file ends with its process, and the process with the container that started it.
type Fuse struct {
	// Socket is the server's NBD socket.
	Socket string
	// Directory has a mount point for each export.
	Directory string
}

func (f Fuse) file(export string) string { return filepath.Join(f.Directory, export, "nbd") }

// Attach starts nbdfuse if the file is not there, and returns its loop device.
func (f Fuse) Attach(ctx context.Context, export string) (string, error) {
	if device, err := f.device(export); device != "" || err != nil {
		return device, err
	}
	if _, err := os.Stat(f.file(export)); err != nil {
		if err := f.unmount(export); err != nil {
			return "", err
		}
		if err := f.mount(ctx, export); err != nil {
			return "", err
		}
		step.Done("nbdfuse started")
	}
	device, err := run(ctx, "losetup", "--find", "--show", f.file(export))
	if err == nil {
		step.Done("loop device made")
	}
	return device, err
}

func (f Fuse) device(export string) (string, error) {
	return withAttribute("loop*", "loop/backing_file", f.file(export))
}

func (f Fuse) mount(ctx context.Context, export string) error {
	place := filepath.Dir(f.file(export))
	if err := os.MkdirAll(place, 0o700); err != nil {
		return err
	}
	log, err := os.Create(filepath.Join(f.Directory, export+".log"))
	if err != nil {
		return err
	}
	defer log.Close()
	// It outlives this process.
	server := exec.Command("nbdfuse", place, fmt.Sprintf("nbd+unix:///%s?socket=%s", export, f.Socket))
	server.Stdout, server.Stderr, server.SysProcAttr = log, log, &syscall.SysProcAttr{Setsid: true}
	if err := server.Start(); err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- server.Wait() }()
	for {
		if _, err := os.Stat(f.file(export)); err == nil {
			return nil
		}
		select {
		case err := <-ended:
			said, _ := os.ReadFile(log.Name())
			return fmt.Errorf("nbdfuse ended: %w: %s", err, said)
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// unmount ends the export's nbdfuse first: one that is unmounted while it starts would wait for ever, and one that a dead
// driver has just started would mount later.
func (f Fuse) unmount(export string) error {
	place := filepath.Dir(f.file(export))
	commands, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		return err
	}
	for _, path := range commands {
		// A process may go meanwhile.
		command, err := os.ReadFile(path)
		words := strings.Split(string(command), "\x00")
		if err != nil || len(words) < 2 || filepath.Base(words[0]) != "nbdfuse" || words[1] != place {
			continue
		}
		process, err := strconv.Atoi(strings.Split(path, "/")[2])
		if err != nil {
			return err
		}
		if err := unix.Kill(process, unix.SIGKILL); err != nil && !errors.Is(err, unix.ESRCH) {
			return err
		}
	}
	// Not lazily: a program that a dead driver had started may still make a loop device of the file.
	err = unix.Unmount(place, 0)
	// Not mounted, or not there.
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOENT) {
		return nil
	}
	return err
}

// Detach removes the loop device, then the file.
func (f Fuse) Detach(ctx context.Context, export string) error {
	device, err := f.device(export)
	if err != nil {
		return err
	}
	if device != "" {
		if _, err := run(ctx, "losetup", "--detach", device); err != nil {
			return err
		}
		step.Done("loop device removed")
	}
	if err := f.unmount(export); err != nil {
		return err
	}
	step.Done("nbdfuse ended")
	if err := os.Remove(filepath.Dir(f.file(export))); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if err := os.Remove(filepath.Join(f.Directory, export+".log")); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

// GrowsInUse is false: an NBD client learns a size when it connects.
func (f Fuse) GrowsInUse() bool { return false }
