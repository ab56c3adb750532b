package attach

import (
	"net"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// The handshake agrees with a real server on the size and the flags of an export, and passes a refusal on.
func TestHandshake(t *testing.T) {
	if _, err := exec.LookPath("hoistway"); err != nil {
		t.Skip("no program hoistway; ./check csi builds it")
	}
	socket := filepath.Join(t.TempDir(), "nbd")
	server := exec.Command("hoistway", "serve", "--nbd", "unix:"+socket, "--export", "db=null:96MiB")
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = server.Process.Kill()
		_ = server.Wait()
	}()
	dial := func() net.Conn {
		for end := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
			connection, err := net.Dial("unix", socket)
			if err == nil {
				t.Cleanup(func() { _ = connection.Close() })
				return connection
			}
			if time.Now().After(end) {
				t.Fatal(err)
			}
		}
	}
	bytes, flags, err := handshake(dial(), "db")
	// NBD_FLAG_HAS_FLAGS and NBD_FLAG_SEND_FLUSH.
	if err != nil || bytes != 96<<20 || flags&5 != 5 {
		t.Errorf("%d bytes, flags %#x, %v", bytes, flags, err)
	}
	if _, _, err := handshake(dial(), "other"); err == nil {
		t.Error("an export that does not exist was opened")
	}
}
