// Package volumes keeps volumes in a directory: of each a file with its data and a record. A volume exists if its
// record does. Every change is durable when its function returns.
package volumes

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"hoistway/kubernetes/internal/parameters"
	"hoistway/kubernetes/internal/step"
)

// Granule is the unit of sizes in bytes: a multiple of the blocks and pages of all systems.
const Granule = 1 << 20

// ErrNoSpace says that the file system has less space than a volume needs.
var ErrNoSpace = errors.New("no space")

// Record is what is known of a volume.
type Record struct {
	// Name is the name that was asked for, unique.
	Name string `json:"name"`
	// Bytes is the size.
	Bytes int64 `json:"bytes"`
	// Parameters are the keys of its group.
	Parameters parameters.Set `json:"parameters"`
	// Attached says that `serve` exports it.
	Attached bool `json:"attached"`
	// HasData says that a pod may have written to it. Before, its contents may be given up.
	HasData bool `json:"has_data"`
}

// Store is a directory of volumes.
type Store struct {
	directory string
}

// Open opens a directory, and makes it if needed.
func Open(directory string) (*Store, error) {
	return &Store{directory}, os.MkdirAll(directory, 0o700)
}

// Clean removes what an unfinished creation or deletion has left. No other process may use the directory.
func (s *Store) Clean() error {
	entries, err := os.ReadDir(s.directory)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if _, err := os.Stat(s.record(entry.Name())); errors.Is(err, os.ErrNotExist) {
			if err := os.RemoveAll(filepath.Join(s.directory, entry.Name())); err != nil {
				return err
			}
		}
	}
	return nil
}

var plainName = regexp.MustCompile(`^[a-z][a-z0-9-]{0,62}$`)

// Key names a volume in the directory, in `serve` and in the first part of its identity: its name, as Kubernetes makes
// them, or a digest of it.
func Key(name string) string {
	if plainName.MatchString(name) {
		return name
	}
	digest := sha256.Sum256([]byte(name))
	return "v" + hex.EncodeToString(digest[:16])
}

// IsKey says whether a text can be the key of a volume; only then it is a safe part of a path.
func IsKey(text string) bool {
	return plainName.MatchString(text)
}

// Image is the path of a volume's data.
func (s *Store) Image(key string) string {
	return filepath.Join(s.directory, key, "image")
}

func (s *Store) record(key string) string {
	return filepath.Join(s.directory, key, "volume.json")
}

// Load returns a record; an os.ErrNotExist says that there is no such volume.
func (s *Store) Load(key string) (Record, error) {
	var record Record
	text, err := os.ReadFile(s.record(key))
	if err != nil {
		return record, err
	}
	if err := json.Unmarshal(text, &record); err != nil {
		return record, fmt.Errorf("%s: %w", s.record(key), err)
	}
	return record, nil
}

// Save replaces the record of a volume.
func (s *Store) Save(key string, record Record) error {
	text, err := json.MarshalIndent(record, "", "  ")
	if err != nil {
		return err
	}
	return Replace(s.record(key), append(text, '\n'))
}

// Keys lists all volumes, sorted.
func (s *Store) Keys() ([]string, error) {
	entries, err := os.ReadDir(s.directory)
	if err != nil {
		return nil, err
	}
	keys := []string{}
	for _, entry := range entries {
		if _, err := os.Stat(s.record(entry.Name())); err == nil {
			keys = append(keys, entry.Name())
		}
	}
	slices.Sort(keys)
	return keys, nil
}

// Create makes the data of a volume and then its record.
func (s *Store) Create(key string, record Record) error {
	if err := os.MkdirAll(filepath.Dir(s.Image(key)), 0o700); err != nil {
		return err
	}
	step.Done("directory of the volume")
	if err := s.Blank(key, record.Bytes); err != nil {
		return errors.Join(err, os.RemoveAll(filepath.Dir(s.Image(key))))
	}
	step.Done("data of the volume")
	return s.Save(key, record)
}

// Blank gives a volume new data, all zeroes. No process may have the old data open.
func (s *Store) Blank(key string, bytes int64) error {
	if err := os.Remove(s.Image(key)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return s.Grow(key, bytes)
}

// Grow makes the data of a volume at least this long, and reserves the space.
func (s *Store) Grow(key string, bytes int64) error {
	image, err := os.OpenFile(s.Image(key), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	defer image.Close()
	info, err := image.Stat()
	if err != nil {
		return err
	}
	old := info.Size()
	if old >= bytes {
		return nil
	}
	available, err := s.Available()
	if err != nil {
		return err
	}
	if bytes-old > available {
		return fmt.Errorf("%w: %s has room for %d bytes more, and %d are wanted", ErrNoSpace, s.directory, available, bytes-old)
	}
	// A file system without fallocate keeps no space; Available counts what is promised all the same.
	switch err := unix.Fallocate(int(image.Fd()), 0, old, bytes-old); {
	case errors.Is(err, unix.EOPNOTSUPP):
		err = image.Truncate(bytes)
		if err != nil {
			return err
		}
	case errors.Is(err, unix.ENOSPC):
		return errors.Join(ErrNoSpace, image.Truncate(old))
	case err != nil:
		return err
	}
	return image.Sync()
}

// Delete removes a volume: first the record, then the data.
func (s *Store) Delete(key string) error {
	if err := os.Remove(s.record(key)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	step.Done("record removed")
	return os.RemoveAll(filepath.Dir(s.Image(key)))
}

// Available is the number of bytes that new volumes may have: the free ones, less those that existing volumes have been
// promised and do not use, because a trim gave them back.
func (s *Store) Available() (int64, error) {
	var system unix.Statfs_t
	if err := unix.Statfs(s.directory, &system); err != nil {
		return 0, err
	}
	available := int64(system.Bavail) * system.Bsize
	keys, err := s.Keys()
	if err != nil {
		return 0, err
	}
	for _, key := range keys {
		var image unix.Stat_t
		if err := unix.Stat(s.Image(key), &image); err != nil {
			continue
		}
		available -= max(0, image.Size-image.Blocks*512)
	}
	return max(0, available-available%Granule), nil
}

// Replace writes a file so that it has either its old or its new contents, also after a loss of power.
func Replace(path string, text []byte) error {
	unfinished := path + ".new"
	file, err := os.OpenFile(unfinished, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	defer file.Close()
	if _, err := file.Write(text); err != nil {
		return err
	}
	if err := file.Sync(); err != nil {
		return err
	}
	step.Done("unfinished " + strings.TrimPrefix(filepath.Base(path), "."))
	if err := os.Rename(unfinished, path); err != nil {
		return err
	}
	directory, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	defer directory.Close()
	if err := directory.Sync(); err != nil {
		return err
	}
	step.Done(filepath.Base(path))
	return nil
}
