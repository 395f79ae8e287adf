package checkpoint

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"
)

// A ConfigError reports that the configuration of a job differs from the configuration in its checkpoint.
type ConfigError struct {
	Dir         string
	Differences []ChangedKey
}

// A ChangedKey is a key with two different values: Then in the checkpoint, and Now in the job. "(not set)" stands for a
// missing value.
type ChangedKey struct{ Key, Then, Now string }

func (e *ConfigError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "checkpoint %s: was written with another configuration:", e.Dir)
	for _, d := range e.Differences {
		fmt.Fprintf(&b, "\n  %s: %s then, %s now", d.Key, d.Then, d.Now)
	}
	return b.String()
}

// CheckConfig compares the job's resolved YAML with the YAML in the checkpoint. It returns a *ConfigError if a key
// differs, except for the keys in mayChange and keys below them. resolve converts the checkpoint's YAML first: it adds
// the defaults of keys that an older program did not have. If resolve fails, the original YAML is compared.
func (c *Checkpoint) CheckConfig(current []byte, resolve func([]byte) ([]byte, error), mayChange ...string) error {
	if hash(current) == c.manifest.Config {
		return nil
	}
	stored, err := c.Read(configFile)
	if err != nil {
		return err
	}
	if resolved, err := resolve(stored); err == nil {
		stored = resolved
	}
	diff, err := CompareConfigs(stored, current, mayChange...)
	if err != nil {
		return fmt.Errorf("checkpoint %s: %s: %w", c.Dir, configFile, err)
	}
	if len(diff) > 0 {
		return &ConfigError{c.Dir, diff}
	}
	return nil
}

// CompareConfigs returns the keys whose values differ between two resolved configurations, except for the keys in
// mayChange and keys below them.
func CompareConfigs(before, after []byte, mayChange ...string) ([]ChangedKey, error) {
	then, err := flatten(before)
	if err != nil {
		return nil, err
	}
	now, err := flatten(after)
	if err != nil {
		return nil, fmt.Errorf("configuration of this job: %w", err)
	}
	keys := maps.Clone(then)
	maps.Copy(keys, now)
	var diff []ChangedKey
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		if then[key] == now[key] || slices.ContainsFunc(mayChange, func(k string) bool {
			return key == k || strings.HasPrefix(key, k+".")
		}) {
			continue
		}
		diff = append(diff, ChangedKey{key, orUnset(then, key), orUnset(now, key)})
	}
	return diff, nil
}

func orUnset(values map[string]string, key string) string {
	if v, ok := values[key]; ok {
		return v
	}
	return "(not set)"
}

// flatten returns the scalars of a YAML document by dotted key. List elements have their index as key. Equal numbers
// get equal texts. Empty maps and lists count as not set.
func flatten(doc []byte) (map[string]string, error) {
	var root any
	if err := yaml.Unmarshal(doc, &root); err != nil {
		return nil, err
	}
	flat := map[string]string{}
	var walk func(key string, v any)
	walk = func(key string, v any) {
		switch v := v.(type) {
		case map[string]any:
			for k, e := range v {
				walk(join(key, k), e)
			}
		case map[any]any:
			for k, e := range v {
				walk(join(key, fmt.Sprint(k)), e)
			}
		case []any:
			for i, e := range v {
				walk(join(key, strconv.Itoa(i)), e)
			}
		case nil:
			flat[key] = "null"
		case string:
			flat[key] = strconv.Quote(v)
		case float64:
			if flat[key] = fmt.Sprint(v); v == math.Trunc(v) && math.Abs(v) < 1<<53 {
				flat[key] = strconv.FormatInt(int64(v), 10)
			}
		default:
			flat[key] = fmt.Sprint(v)
		}
	}
	walk("", root)
	return flat, nil
}

func join(key, sub string) string {
	if key == "" {
		return sub
	}
	return key + "." + sub
}

func hash(config []byte) string {
	sum := sha256.Sum256(bytes.TrimSpace(config))
	return "sha256:" + hex.EncodeToString(sum[:])
}
