package serve

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"hoistway/kubernetes/internal/step"
	"hoistway/kubernetes/internal/volumes"
)

// idle is an export of nothing: a [[device]] without exports is refused. Its name cannot be that of a volume.
const idle = "IDLE"

// Configuration is the file of `hoistway serve`. It follows from the records alone, so a server that starts anew serves
// what it has served, without the driver.
type Configuration struct {
	// Path of the file.
	Path string
	// Head is a file with the operator's part, one [[device]] among it; "" for all defaults.
	Head string
	// Control and Listen are the server's sockets.
	Control Control
	Listen  string
	// Ublk asks for a local block device for each export.
	Ublk bool

	Store *volumes.Store

	mutex sync.Mutex
}

// Write writes the file.
func (c *Configuration) Write() error {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return c.write()
}

// Apply writes the file and makes the server take it over; it returns the server's warnings.
func (c *Configuration) Apply(ctx context.Context) ([]string, error) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if err := c.write(); err != nil {
		return nil, err
	}
	warnings, err := c.Control.Reload(ctx)
	if err == nil {
		step.Done("configuration in force")
	}
	return warnings, err
}

func (c *Configuration) write() error {
	nothing := filepath.Join(filepath.Dir(c.Path), "idle")
	// Made once: the server must not see it become shorter.
	if _, err := os.Stat(nothing); errors.Is(err, os.ErrNotExist) {
		if err := volumes.Replace(nothing, make([]byte, 4096)); err != nil {
			return err
		}
	}
	text, err := c.text(nothing)
	if err != nil {
		return err
	}
	return volumes.Replace(c.Path, []byte(text))
}

func (c *Configuration) text(nothing string) (string, error) {
	head := "[[device]]\nname = \"csi\"\n"
	if c.Head != "" {
		text, err := os.ReadFile(c.Head)
		if err != nil {
			return "", err
		}
		head = string(text)
	}
	var exports, groups strings.Builder
	keys, err := c.Store.Keys()
	if err != nil {
		return "", err
	}
	for _, key := range keys {
		record, err := c.Store.Load(key)
		if err != nil {
			return "", err
		}
		if !record.Attached {
			continue
		}
		// With one missing file the server would refuse all.
		if _, err := os.Stat(c.Store.Image(key)); err != nil {
			if !errors.Is(err, os.ErrNotExist) {
				return "", err
			}
			slog.Error("the data of a volume is gone; it is not served", "volume", key, "error", err)
			continue
		}
		fmt.Fprintf(&exports, "\n[[device.export]]\nname = %s\nbacking = %s\n", quoted(key), quoted(c.Store.Image(key)))
		if c.Ublk {
			exports.WriteString("ublk = true\n")
		}
		fmt.Fprintf(&groups, "\n[[group]]\npath = %s\n", quoted(key))
		for _, name := range slices.Sorted(maps.Keys(record.Parameters)) {
			fmt.Fprintf(&groups, "%s = %d\n", name, record.Parameters[name])
		}
	}
	return fmt.Sprintf("# Written by hoistway-csi: changes are lost.\n%s\n[control]\nunix = %s\n\n[[listen]]\nunix = %s\nmode = \"0600\"\n\n"+
		"[[device.export]]\nname = %s\nbacking = %s\nread_only = true\n%s%s",
		head, quoted(string(c.Control)), quoted(c.Listen), quoted(idle), quoted(nothing), &exports, &groups), nil
}

// quoted is a text in the notation of TOML, of which JSON's is a part.
func quoted(text string) string {
	quoted, err := json.Marshal(text)
	if err != nil {
		panic(err) // a string always has a notation
	}
	return string(quoted)
}
