// Package parameters checks what a StorageClass or a VolumeAttributesClass may say of a volume: the keys of a [[group]]
// in the configuration of `hoistway serve`, with the same names, units and ranges.
package parameters

import (
	"fmt"
	"maps"
	"math"
	"math/big"
	"slices"
	"strings"
)

// Set holds checked parameters: the key of a [[group]] and its number, in the unit that the key names (bytes per second,
// requests per second, milliseconds, microseconds).
type Set map[string]uint64

// kind says how a parameter is written.
type kind int

const (
	number kind = iota
	bytesPerSecond
	requestsPerSecond
)

// parameter is the range of a key, both ends included, as in crates/export/src/configuration/file.rs.
type parameter struct {
	kind  kind
	least uint64
	most  uint64
}

var known = map[string]parameter{
	"weight":            {number, 1, 10_000},
	"latency_target_us": {number, 0, math.MaxUint32},
	"burst_ms":          {number, 1, 3_600_000},
	// What a TOML integer can hold.
	"read_bps_max":   {bytesPerSecond, 0, math.MaxInt64},
	"write_bps_max":  {bytesPerSecond, 0, math.MaxInt64},
	"total_bps_max":  {bytesPerSecond, 0, math.MaxInt64},
	"read_iops_max":  {requestsPerSecond, 0, math.MaxUint32 - 1},
	"write_iops_max": {requestsPerSecond, 0, math.MaxUint32 - 1},
	"total_iops_max": {requestsPerSecond, 0, math.MaxUint32 - 1},
}

// Names returns all parameters, sorted.
func Names() []string {
	return slices.Sorted(maps.Keys(known))
}

// Check reads parameters. Keys of the sidecars (csi.storage.k8s.io/...) are left out. An error names the parameter, its
// value and the range.
func Check(given map[string]string) (Set, error) {
	checked := Set{}
	for _, name := range slices.Sorted(maps.Keys(given)) {
		if strings.HasPrefix(name, "csi.storage.k8s.io/") {
			continue
		}
		parameter, ok := known[name]
		if !ok {
			return nil, fmt.Errorf("there is no parameter %q; there are: %s", name, strings.Join(Names(), ", "))
		}
		value, err := parameter.read(given[name])
		if err != nil {
			return nil, fmt.Errorf("%s = %q %w", name, given[name], err)
		}
		checked[name] = value
	}
	return checked, nil
}

// With returns the set with other values in place of its own.
func (set Set) With(others Set) Set {
	merged := maps.Clone(set)
	if merged == nil {
		merged = Set{}
	}
	maps.Copy(merged, others)
	return merged
}

// read returns the value of a text of this kind, if it is in the range.
func (p parameter) read(text string) (uint64, error) {
	value, ok := p.parse(text)
	most := new(big.Int).SetUint64(p.most)
	if !ok || value.Cmp(new(big.Int).SetUint64(p.least)) < 0 || value.Cmp(most) > 0 {
		return 0, fmt.Errorf("is not %s from %d to %d", p.kind, p.least, p.most)
	}
	return value.Uint64(), nil
}

func (p parameter) parse(text string) (*big.Int, bool) {
	if p.kind != number {
		text = strings.TrimSuffix(text, "/s")
	}
	digits := strings.TrimRight(text, "kKmMgGtTpPiB")
	factor, ok := p.factor(text[len(digits):])
	if !ok || digits == "" || strings.Trim(digits, "0123456789") != "" {
		return nil, false
	}
	value, ok := new(big.Int).SetString(digits, 10)
	if !ok {
		return nil, false
	}
	return value.Mul(value, factor), true
}

// factor is what a suffix multiplies by. Sizes: k, K, Ki and KiB are powers of 1,024, kB of 1,000 (docs/reference/units.md);
// requests: powers of 1,000.
func (p parameter) factor(suffix string) (*big.Int, bool) {
	if suffix == "" || (suffix == "B" && p.kind == bytesPerSecond) {
		return big.NewInt(1), true
	}
	power := strings.Index("kmgtp", strings.ToLower(suffix[:1])) + 1
	if power == 0 || p.kind == number {
		return nil, false
	}
	base := int64(1_000)
	if p.kind == requestsPerSecond {
		if len(suffix) > 1 || power > 3 {
			return nil, false
		}
	} else {
		switch suffix[1:] {
		case "", "i", "iB":
			base = 1_024
		case "B":
			// fio means 1,024 by KB, others 1,000: serve refuses it, too.
			if suffix == "KB" {
				return nil, false
			}
		default:
			return nil, false
		}
	}
	return new(big.Int).Exp(big.NewInt(base), big.NewInt(int64(power)), nil), true
}

func (k kind) String() string {
	switch k {
	case bytesPerSecond:
		return "a size per second, such as 50MiB,"
	case requestsPerSecond:
		return "a number of requests per second, such as 20k,"
	default:
		return "a whole number"
	}
}
