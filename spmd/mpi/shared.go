//go:build mpi

package mpi

/*
#include "shim.h"

#cgo noescape rl_await
#cgo nocallback rl_await
*/
import "C"

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"hash/fnv"
	"math"
	"os"
	"runtime"
	"strconv"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/rlinf/rlinf/spmd"
)

// A shared is the shared memory of a node's ranks. Each rank's arena is in a file of its own, which has no
// name. The other ranks open the file through /proc/PID/fd and map it whole. So the size of /dev/shm does
// not limit the memory, and the kernel frees it when the last process has ended.
type shared struct {
	t       *transport
	regions [][]byte // the arena of each rank of this node, including this rank; nil for a rank of another node
}

var (
	_ spmd.Shared      = (*shared)(nil)
	_ spmd.SharedMaker = (*transport)(nil)
)

// maxReserve is the maximum size of an arena's reservation, in bytes. A page takes memory only once it is touched.
const maxReserve = 64 << 30

// An offer describes a rank and its arena. The ranks of a node exchange their offers as raw bytes.
type offer struct {
	rank, pid int64
	fd        int64 // descriptor of the arena's file in process pid
	size      int64 // 0 if there is no file
	cookie    [16]byte
	cpus      unix.CPUSet // CPUs that the process may use
	quota     float64     // cores that its control group grants; +Inf means all
	group     uint64      // a hash of the group's name
}

// oversubscribed reports whether a node grants its ranks fewer cores than there are ranks.
func oversubscribed(all []offer) bool {
	var cores unix.CPUSet
	for _, o := range all {
		for i := range cores {
			cores[i] |= o.cpus[i]
		}
	}
	return min(float64(cores.Count()), granted(all)) < float64(len(all))
}

// granted returns the number of cores that the ranks of a node may use together under their limits on processor time.
// It returns +Inf if a rank has no limit.
func granted(all []offer) (cores float64) {
	groups := map[uint64]bool{}
	for _, o := range all {
		if !groups[o.group] || math.IsInf(o.quota, 1) {
			cores += o.quota
		}
		groups[o.group] = true
	}
	return cores
}

// share makes t's arena, and maps the arenas of the other ranks of the node. It is collective. If this
// fails on some rank of the world, no rank shares memory, and share returns nil.
func (t *transport) share() error {
	mine := offer{rank: int64(t.rank), pid: int64(os.Getpid())}
	unix.SchedGetaffinity(0, &mine.cpus) // if this fails, there seem to be no cores, and no wait spins
	group, quota := cgroupOf(os.DirFS("/"))
	h := fnv.New64a()
	h.Write([]byte(group))
	mine.quota, mine.group = quota, h.Sum64()
	rand.Read(mine.cookie[:])
	onNode := 0
	for _, n := range t.nodes {
		if n == t.nodes[t.rank] {
			onNode++
		}
	}
	how := os.Getenv("RLINF_SHM")
	if n, err := strconv.Atoi(how); err == nil && n > 0 {
		t.nodes = splitNodes(t.nodes, n)
	} else if how != "" && how != "off" {
		return fmt.Errorf("RLINF_SHM=%s: expected off, or a number of ranks > 0", how)
	}
	fd, cannot := -1, error(nil)
	if how == "off" {
		cannot = errors.New("RLINF_SHM=off")
	} else if fd, cannot = t.arena.open(onNode); cannot == nil {
		defer unix.Close(fd)
		mine.fd, mine.size = int64(fd), int64(len(t.arena.reserve))
		b, _ := t.arena.allocOwn(int(C.rl_segment_bytes())) // the first piece, where the other ranks expect it
		copy(b, mine.cookie[:])
	}

	all := make([]offer, onNode)
	var fault C.rl_fault
	if C.rl_node_allgather(t.world, unsafe.Pointer(&mine), C.int(unsafe.Sizeof(mine)), unsafe.Pointer(&all[0]),
		&fault) != 0 {
		return callError(&fault)
	}
	s := &shared{t: t, regions: make([][]byte, t.size)}
	if oversubscribed(all) {
		C.rl_world_oversubscribed(t.world)
	}
	if cores := granted(all); !math.IsInf(cores, 1) {
		t.about.Quota = int(math.Ceil(cores))
	}
	for _, o := range all {
		if cannot == nil && t.nodes[o.rank] == t.nodes[t.rank] {
			s.regions[o.rank], cannot = t.reach(o)
		}
	}
	yes := C.int(0)
	if cannot == nil {
		yes = 1
	}
	if C.rl_world_agree(t.world, &yes, &fault) != 0 { // from here on the files may be closed
		return callError(&fault)
	}
	if yes != 0 {
		if err := s.open(); err != nil {
			return err
		}
		t.shared = s
		t.about.Shared = fmt.Sprintf("%.3g GiB per rank", float64(len(t.arena.reserve))/(1<<30))
		return nil
	}
	s.unmap()
	if cannot == nil {
		cannot = errors.New("another rank has none")
	}
	t.about.Shared = "none: " + cannot.Error()
	return nil
}

// splitNodes splits each node into nodes of n ranks. The last part of a node may have fewer ranks.
func splitNodes(nodes []int, n int) []int {
	type part struct{ node, number int }
	count, parts := map[int]int{}, make([]part, len(nodes))
	for r, node := range nodes {
		parts[r] = part{node, count[node] / n}
		count[node]++
	}
	return numberKeys(parts)
}

// messageMemory is the number of bytes that a rank reserves for messages to ranks of its node.
const messageMemory = 64 << 20

// open enables messages through shared memory to ranks of the node.
func (s *shared) open() error {
	own := s.t.arena.reserve
	room, err := s.t.arena.allocOwn(min(messageMemory, len(own)/4))
	if err != nil {
		return err
	}
	regions := make([]C.uintptr_t, len(s.regions))
	for r, b := range s.regions {
		regions[r] = C.uintptr_t(uintptr(unsafe.Pointer(unsafe.SliceData(b))))
	}
	if code := C.rl_world_share(s.t.world, &regions[0], C.int64_t(len(own)),
		C.uintptr_t(uintptr(unsafe.Pointer(unsafe.SliceData(room)))), C.int64_t(len(room))); code != 0 {
		return errors.New(errorText(code))
	}
	return nil
}

// open makes a file without a name and reserves its memory. The size is small enough that each of the node's n
// processes can map the files of all n processes.
func (a *arena) open(n int) (fd int, err error) {
	size := uint64(maxReserve)
	var info unix.Sysinfo_t
	if unix.Sysinfo(&info) == nil {
		size = min(size, uint64(info.Totalram)*uint64(info.Unit))
	}
	var limit unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_AS, &limit) == nil {
		size = min(size, limit.Cur/uint64(2*n+2)) // leaves more than half of the limit for everything else
	}
	fd, err = unix.MemfdCreate("rlinf", unix.MFD_CLOEXEC)
	if err != nil {
		return -1, fmt.Errorf("memfd_create: %w", err)
	}
	for ; size >= blockSize; size /= 2 {
		size = size / blockSize * blockSize
		if err = unix.Ftruncate(fd, int64(size)); err == nil {
			var b []byte
			if b, err = mapFile(fd, int(size)); err == nil {
				a.reserveIn(b)
				return fd, nil
			}
		}
	}
	unix.Close(fd)
	return -1, fmt.Errorf("reserve memory: %w", err)
}

func mapFile(fd, size int) ([]byte, error) {
	b, err := unix.Mmap(fd, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_NORESERVE)
	if err == nil {
		advise(b)
	}
	return b, err
}

// reach maps the memory that a rank of the node offers.
func (t *transport) reach(o offer) ([]byte, error) {
	if int(o.rank) == t.rank {
		return t.arena.reserve, nil
	}
	refuse := func(why error) ([]byte, error) {
		return nil, fmt.Errorf("the memory of rank %d (pid %d) is out of reach: %w", o.rank, o.pid, why)
	}
	if o.size == 0 {
		return refuse(errors.New("it has none to share"))
	}
	fd, err := unix.Open(fmt.Sprintf("/proc/%d/fd/%d", o.pid, o.fd), unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return refuse(err)
	}
	defer unix.Close(fd)
	var stat unix.Stat_t
	if err := unix.Fstat(fd, &stat); err != nil || stat.Size != o.size {
		return refuse(errors.New("that process has another file there, as in another container"))
	}
	b, err := mapFile(fd, int(o.size))
	if err != nil {
		return refuse(err)
	}
	if [16]byte(b) != o.cookie {
		unix.Munmap(b)
		return refuse(errors.New("that process has another file there, as in another container"))
	}
	return b, nil
}

// unmap unmaps the memory of the other ranks.
func (s *shared) unmap() {
	for r, b := range s.regions {
		if b != nil && r != s.t.rank {
			unix.Munmap(b)
		}
	}
	s.regions = nil
}

// Shared returns the shared memory of this node; see spmd.SharedMaker. RLINF_SHM=off in the environment of any
// rank turns shared memory off. RLINF_SHM=2 on every rank splits nodes into nodes of two ranks.
func (t *transport) Shared() (spmd.Shared, bool) {
	if t.shared == nil {
		return nil, false
	}
	return t.shared, true
}

func (s *shared) Locate(b []byte) (at int64, ok bool) {
	i, ok := s.t.arena.all()[0].Offset(b)
	return int64(i), ok
}

func (s *shared) View(rank int, at int64, n int) ([]byte, error) {
	if rank < 0 || rank >= len(s.regions) || s.regions[rank] == nil {
		return nil, fmt.Errorf("view memory of rank %d: it is not of the node of rank %d", rank, s.t.rank)
	}
	all := s.regions[rank]
	if n < 0 || at < 0 || at > int64(len(all)) || n > len(all)-int(at) {
		return nil, fmt.Errorf("view memory of rank %d: %d bytes at %d, of %d", rank, n, at, len(all))
	}
	return all[at : int(at)+n : int(at)+n], nil
}

func (s *shared) Await(ctx context.Context, sig *spmd.Signal, old uint32, rank int) error {
	if sig.Value.Load() != old {
		return nil
	}
	// The signal is in the arena or, for use within the process, on Go's heap. Neither memory moves.
	value, sleepers := uintptr(unsafe.Pointer(&sig.Value)), uintptr(unsafe.Pointer(&sig.Sleepers))
	defer runtime.KeepAlive(sig)
	report := s.t.stall
	var waited C.int64_t
	for C.rl_await(s.t.world, C.uintptr_t(value), C.uintptr_t(sleepers), C.uint32_t(old), &waited) != 0 {
		if waited < C.RL_SHORT_SLEEP_NS {
			e := event{&sig.Value, &sig.Sleepers, nil, old}
			waited = C.int64_t(s.t.shortSleeps.sleep(e, time.Duration(waited), false))
			continue
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if s.t.overdue(time.Duration(waited)) {
			if err := s.checkDeparted(rank); err != nil && sig.Value.Load() == old {
				return err
			}
		}
		if report > 0 && time.Duration(waited) > report {
			who := "any rank"
			if rank >= 0 {
				who = fmt.Sprintf("rank %d", rank)
			}
			s.t.reportWait(time.Duration(waited), "a signal of "+who)
			report *= 4
		}
	}
	return nil
}

// checkDeparted returns an error if the program of a rank has ended, so that the rank will post no signal. For rank
// = -1, it returns an error if the programs of all other ranks of the node have ended.
func (s *shared) checkDeparted(rank int) error {
	if rank >= 0 {
		if err := s.t.departed(rank); err != nil {
			return fmt.Errorf("wait for a signal: %w", err)
		}
		return nil
	}
	left, others := 0, 0
	for r, region := range s.regions {
		if region == nil || r == s.t.rank {
			continue
		}
		others++
		if s.t.departed(r) != nil {
			left++
		}
	}
	if left < others || others == 0 {
		return nil
	}
	return errors.New("wait for a signal: all other ranks of the node have left: their programs have ended")
}

func (s *shared) Post(sig *spmd.Signal, value uint32) {
	sig.Value.Store(value)
	if sig.Sleepers.Load() > 0 {
		wake(&sig.Value)
	}
}
