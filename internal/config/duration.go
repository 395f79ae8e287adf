package config

import (
	"fmt"
	"regexp"
	"strconv"
	"time"
)

var clock = regexp.MustCompile(`^(\d+):([0-5]\d):([0-5]\d)$`)

// parseDuration parses a duration: Go's form ("90s", "1h30m"), Slurm's "HH:MM:SS" with any number
// of hours, or 0.
func parseDuration(s string) (time.Duration, error) {
	if m := clock.FindStringSubmatch(s); m != nil {
		h, err := strconv.ParseInt(m[1], 10, 32)
		if err != nil || h > 2_000_000 { // time.Duration ends at 292 years
			return 0, fmt.Errorf("duration %q: too long", s)
		}
		minutes, _ := strconv.Atoi(m[2])
		seconds, _ := strconv.Atoi(m[3])
		return time.Duration(h)*time.Hour + time.Duration(minutes)*time.Minute + time.Duration(seconds)*time.Second, nil
	}
	d, err := time.ParseDuration(s)
	if err != nil {
		return 0, fmt.Errorf("duration %q: neither like 90s or 1h30m nor HH:MM:SS", s)
	}
	return d, nil
}
