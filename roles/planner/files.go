package planner

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/rlinf/rlinf/internal/durable"
)

// A file is a Machine, a Profile, or both, as JSON.
type file struct {
	Machine *Machine `json:"machine,omitempty"`
	Profile *Profile `json:"profile,omitempty"`
}

// Write writes a machine and a profile to a file. Either may be nil.
func Write(path string, m *Machine, p *Profile) error {
	text, err := json.MarshalIndent(file{m, p}, "", "  ")
	if err != nil {
		return fmt.Errorf("plan: %w", err)
	}
	return durable.WriteFile(path, append(text, '\n'))
}

// Read reads a file that Write has written. The machine or the profile is nil if the file lacks it.
func Read(path string) (*Machine, *Profile, error) {
	text, err := durable.ReadFile(path, durable.Text)
	if err != nil {
		return nil, nil, err
	}
	var f file
	d := json.NewDecoder(bytes.NewReader(durable.WholeNumbers(text)))
	d.DisallowUnknownFields()
	if err := d.Decode(&f); err != nil {
		return nil, nil, fmt.Errorf("%s: %w: expected a file of rlinf plan --save-profile", path, err)
	}
	if f.Machine == nil && f.Profile == nil {
		return nil, nil, fmt.Errorf("%s: no machine and no profile: expected a file of rlinf plan --save-profile", path)
	}
	var errs []error
	if f.Machine != nil {
		errs = append(errs, f.Machine.check())
	}
	if f.Profile != nil {
		errs = append(errs, f.Profile.check())
	}
	if err := errors.Join(errs...); err != nil {
		return nil, nil, fmt.Errorf("%s: %w", path, err)
	}
	return f.Machine, f.Profile, nil
}

// An Identity names the build, the host and the job of a measurement.
type Identity struct {
	Build string // build of the program
	Host  string
	Job   string // hash of the configuration: see Profile.Job
}

// Fits returns an error if p is from another build, host or job than id. If anyHost is true, the host may differ,
// because the user describes the machine.
func (p *Profile) Fits(id Identity, anyHost bool) error {
	var errs []error
	want := func(what, has, here, remedy string) {
		if has != "" && here != "" && has != here {
			errs = append(errs, fmt.Errorf("the profile is of another %s (%s, and this is %s): expected %s", what,
				short(has), short(here), remedy))
		}
	}
	want("job", p.Job, id.Job, "a profile of this configuration; rlinf plan --save-profile FILE measures it")
	want("build", p.Build, id.Build, "a profile by this program; rlinf plan --save-profile FILE measures again")
	if !anyHost {
		want("machine", p.Host, id.Host, "a profile of this host, or --machine FILE, which describes the other one")
	}
	return errors.Join(errs...)
}

// short shortens a name to 16 bytes.
func short(name string) string {
	if len(name) > 16 {
		return name[:16]
	}
	return name
}
