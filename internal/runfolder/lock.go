package runfolder

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/rlinf/rlinf/internal/durable"
)

const (
	lockFile  = "lock"
	claimFile = "lock.claim"

	// beat is how often a job renews its lock, and stale after how long without that it counts as
	// gone.
	beat  = 15 * time.Second
	stale = 60 * time.Second
)

// An Owner is the job that has a folder. Its file's modification time is its heartbeat, compared
// with that of another new file in the same folder: one clock, the file system's, tells both.
type Owner struct {
	Host    string    `json:"host"`
	PID     int       `json:"pid"`
	PIDs    string    `json:"pids"`          // which PIDs: those of the host, or of a container on it
	Job     string    `json:"job,omitempty"` // the scheduler's name for it
	Started time.Time `json:"started"`
	Born    string    `json:"born,omitempty"` // of the process, in ticks since the host's start; "": not known
}

// self describes this process.
func self(job string) (Owner, error) {
	host, err := os.Hostname()
	if err != nil {
		return Owner{}, err
	}
	pids, _ := os.Readlink("/proc/self/ns/pid") // "" where there are no containers
	_, born := processStat(os.Getpid())
	return Owner{host, os.Getpid(), pids, job, time.Now().Round(time.Second), born}, nil
}

// processStat returns the state and the time of birth of a process of this host; "" where they are
// not to be known. "pid (name) Z …" is a dead process that nobody waited for, as they stay in
// containers without an init process.
func processStat(pid int) (state, born string) {
	stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	if len(fields) < 20 {
		return "", ""
	}
	return fields[0], fields[19] // the 22nd of all, see proc(5)
}

// here reports whether self can see the process of o.
func (o Owner) here(self Owner) bool { return o.Host == self.Host && o.PIDs == self.PIDs }

// died reports whether self sees by its PID that o lives no more. Another process may have that PID
// by now.
func (o Owner) died(self Owner) bool {
	if !o.here(self) {
		return false
	}
	if o.PID <= 0 || errors.Is(syscall.Kill(o.PID, 0), syscall.ESRCH) {
		return true
	}
	state, born := processStat(o.PID)
	return state == "Z" || o.Born != "" && born != "" && o.Born != born
}

// String names the job.
func (o Owner) String() string {
	s := fmt.Sprintf("process %d on %s, started %s", o.PID, o.Host, o.Started.Local().Format("2006-01-02 15:04:05"))
	if o.Job != "" {
		s = "job " + o.Job + ", " + s
	}
	return s
}

// A BusyError says that another job has the folder.
type BusyError struct {
	Folder string
	Owner  Owner
	Beat   time.Duration // since its last heartbeat; < 0: by the clock that is yet to come
}

func (e *BusyError) Error() string {
	if e.Owner.PID == 0 {
		return fmt.Sprintf("run folder %s: another job is about to use it", e.Folder)
	}
	return fmt.Sprintf("run folder %s: in use by %v (last sign of life %v ago); wait for it, or choose another "+
		"runner.logger.experiment_name",
		e.Folder, e.Owner, max(e.Beat, 0).Round(time.Second))
}

// A lock is the file lockFile, held by the process that made the file that has the name now. It is
// not a lock of the operating system, because many parallel file systems have none that reaches
// other nodes.
type lock struct {
	path string
	file *os.File
	text []byte
}

// acquire takes the lock of folder for this process.
//
// The lock changes hands only under the claim, a file that is made exclusively and lives for an
// instant, so two jobs that both find a stale lock cannot both replace it. A claim whose maker died
// goes stale like a lock.
func acquire(folder, job string) (*lock, error) {
	me, err := self(job)
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(me)
	if err != nil {
		return nil, err
	}
	claim, err := makeClaim(folder, me, text)
	if err != nil {
		return nil, err
	}
	l := &lock{filepath.Join(folder, lockFile), claim, text}
	present, err := claim.Stat()
	if err == nil {
		err = checkStale(l.path, me, present.ModTime())
	}
	if err != nil {
		return nil, errors.Join(err, claim.Close(), os.Remove(claim.Name()))
	}
	err = os.Rename(claim.Name(), l.path)
	if err == nil {
		err = l.held() // not if another job took this claim for a stale one
	}
	if err != nil {
		return nil, errors.Join(err, claim.Close())
	}
	return l, nil
}

// makeClaim makes the claim, if need be after removing a stale one.
func makeClaim(folder string, me Owner, text []byte) (*os.File, error) {
	path := filepath.Join(folder, claimFile)
	for {
		f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o666)
		if err == nil {
			if _, err := f.Write(text); err != nil {
				return nil, errors.Join(err, f.Close(), os.Remove(path))
			}
			return f, nil
		}
		if !os.IsExist(err) {
			return nil, err
		}
		now, err := clock(folder)
		if err == nil {
			err = checkStale(path, me, now)
		}
		if err != nil {
			return nil, err
		}
		if err := os.Remove(path); err != nil && !os.IsNotExist(err) {
			return nil, err
		}
	}
}

// clock returns the time by the clock of the file system that folder is in.
func clock(folder string) (time.Time, error) {
	probe, err := os.CreateTemp(folder, ".clock-")
	if err != nil {
		return time.Time{}, err
	}
	info, err := probe.Stat()
	if err := errors.Join(err, probe.Close(), os.Remove(probe.Name())); err != nil {
		return time.Time{}, err
	}
	return info.ModTime(), nil
}

// hasOwner reports whether a job that lives has the lock of folder. Where this process may not write
// there, it goes by the clock of this host.
func hasOwner(folder string) (bool, error) {
	me, err := self("")
	if err != nil {
		return false, err
	}
	now, err := clock(folder)
	if err != nil {
		now = time.Now()
	}
	err = checkStale(filepath.Join(folder, lockFile), me, now)
	if busy := (*BusyError)(nil); errors.As(err, &busy) {
		return true, nil
	}
	return false, err
}

// checkStale returns a *BusyError if the owner of the lock or claim at path lives, as far as me can
// see at the time now of the file system. An owner lives if its heartbeat is young and its process
// is not known to be dead. A heartbeat from the future is that of an owner from before the clock was
// set back: it would have renewed it since, so it lives only if me sees its process. Without a file
// there is no owner.
func checkStale(path string, me Owner, now time.Time) error {
	info, err := os.Stat(path)
	if os.IsNotExist(err) {
		return nil
	} else if err != nil {
		return err
	}
	text, err := durable.ReadFile(path)
	if os.IsNotExist(err) {
		return nil
	} else if err != nil {
		return err
	}
	age := now.Sub(info.ModTime())
	if age > stale {
		return nil
	}
	busy := &BusyError{Folder: filepath.Dir(path), Beat: age}
	known := json.Unmarshal(text, &busy.Owner) == nil
	if known && busy.Owner.died(me) || age < -stale && !(known && busy.Owner.here(me)) {
		return nil
	}
	return busy
}

// errLost is in the error of a lock that is no longer this process's.
var errLost = errors.New("lock lost")

// KeepAlive renews the lock until ctx ends, and then returns nil. It returns an error when the
// folder is no longer this job's: its lock was removed, or another job took it after a minute
// without a heartbeat. It also returns an error when it could not renew the lock for a minute.
func (f *Folder) KeepAlive(ctx context.Context) error {
	tick := time.NewTicker(beat)
	defer tick.Stop()
	for renewed := time.Now(); ; {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			err := f.lock.renew()
			if err == nil {
				renewed = time.Now()
			} else if errors.Is(err, errLost) || time.Since(renewed) >= stale {
				return fmt.Errorf("run folder %s: %w", f.path, err)
			}
		}
	}
}

// renew writes the file again, which gives it the time of the file system's clock.
func (l *lock) renew() error {
	if err := l.held(); err != nil {
		return err
	}
	_, err := l.file.WriteAt(l.text, 0)
	return err
}

// held says whether the file with the lock's name is still the one that this process made.
func (l *lock) held() error {
	mine, err := l.file.Stat()
	if err != nil {
		return err
	}
	current, err := os.Stat(l.path)
	if os.IsNotExist(err) {
		return fmt.Errorf("%w: the file %s is gone", errLost, lockFile)
	} else if err != nil {
		return err
	}
	if !os.SameFile(mine, current) {
		var other Owner
		if text, err := durable.ReadFile(l.path); err == nil && json.Unmarshal(text, &other) == nil {
			return fmt.Errorf("%w: taken over by %v", errLost, other)
		}
		return fmt.Errorf("%w: taken over by another job", errLost)
	}
	return nil
}

func (l *lock) release() error {
	err := l.held()
	if err == nil {
		err = os.Remove(l.path)
	}
	if err := errors.Join(err, l.file.Close()); err != nil {
		return fmt.Errorf("run folder: unlock: %w", err)
	}
	return nil
}
