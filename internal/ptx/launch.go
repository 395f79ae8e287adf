package ptx

import (
	"fmt"
	"math"
)

// A Grid is the number of blocks of a launch, in two directions.
type Grid struct{ X, Y int }

// A Fault is an error that a kernel makes.
type Fault struct {
	Kernel      string
	Line        int    // in the module
	Instruction string // as it is there
	Block       Grid   // place of the block
	Thread      int    // number in its block
	What        string
}

// Error names the kernel, the place in its text, and the thread.
func (f *Fault) Error() string {
	return fmt.Sprintf("ptx: kernel %s, block (%d,%d), thread %d: %s (line %d: %s)", f.Kernel, f.Block.X, f.Block.Y,
		f.Thread, f.What, f.Line, f.Instruction)
}

// Launch runs k on a grid of blocks with the given number of threads. An argument has the bits of its parameter. The
// error is a *Fault, unless the arguments do not match.
func (k *Kernel) Launch(memory *Memory, grid Grid, threads int, args []uint64) error {
	if len(args) != len(k.Params) {
		return fmt.Errorf("ptx: kernel %s: %d arguments, expected %d", k.Name, len(args), len(k.Params))
	}
	if grid.X < 1 || grid.Y < 1 || threads < 1 || threads > 1024 {
		return fmt.Errorf("ptx: kernel %s: a grid of %d x %d blocks of %d threads", k.Name, grid.X, grid.Y, threads)
	}
	memory.launch++
	l := &launch{Kernel: k, memory: memory, threads: threads, grid: grid, fixed: append([]uint64(nil), k.fixed...),
		registers: make([]uint64, threads*k.count), next: make([]int, threads),
		shared: make([]byte, 4*len(k.shared)), uses: make([]use, len(k.shared)), written: make([]int, len(k.shared)),
		last: make([]*mapped, len(k.code))}
	if len(args) > 0 {
		copy(l.fixed[k.params:], args)
	}
	for i, size := range k.Params {
		if size == 4 {
			l.fixed[k.params+i] &= math.MaxUint32
		}
	}
	for l.at.Y = 0; l.at.Y < grid.Y; l.at.Y++ {
		for l.at.X = 0; l.at.X < grid.X; l.at.X++ {
			if f := l.block(); f != nil {
				return f
			}
		}
	}
	return nil
}

// A launch runs the blocks of a kernel one after the other, and their threads in turn from barrier to barrier.
type launch struct {
	*Kernel
	memory  *Memory
	threads int
	grid    Grid

	at        Grid     // the current block
	blocks    int      // begun so far
	part      uint64   // between two barriers of the current block
	fixed     []uint64 // constants and arguments
	registers []uint64 // of all threads
	next      []int    // the next instruction of each thread; ended if there is none

	shared  []byte
	uses    []use // of each word of shared memory, in the current part
	written []int // the block that wrote each word last

	last []*mapped // the range that each instruction has accessed last
}

// ended is the next instruction of a thread that has ended.
const ended = -1

// block runs the current block.
func (l *launch) block() *Fault {
	l.blocks++
	for t := range l.threads {
		r := l.registers[t*l.count:]
		copy(r, l.fixed)
		r[l.places[threadX]], r[l.places[blockX]], r[l.places[blockY]] = uint64(t), uint64(l.at.X), uint64(l.at.Y)
		l.next[t] = 0
	}
	for {
		l.part++
		for t := range l.threads {
			if f := l.run(t); f != nil {
				return f
			}
		}
		for t, next := range l.next {
			if next != l.next[0] {
				at := max(next, l.next[0]) - 1 // the barrier that another thread does not reach
				return l.fault(t, at, fmt.Sprintf("threads 0 and %d do not reach the same barrier", t))
			}
		}
		if l.next[0] == ended {
			return nil
		}
	}
}

func (l *launch) fault(thread, at int, what string) *Fault {
	return &Fault{Kernel: l.Name, Line: l.code[at].line, Instruction: l.text[at], Block: l.at, Thread: thread,
		What: what}
}

// access does a load or a store of thread t.
func (l *launch) access(t, at int, r []uint64) *Fault {
	in := &l.code[at]
	address, n := r[in.a]+in.offset, uint64(in.size*in.count)
	if address%n != 0 {
		return l.fault(t, at, fmt.Sprintf("address %#x is no multiple of %d", address, n))
	}
	data, uses, offset := l.shared, l.uses, address
	stamp := l.part<<threadBits | uint64(t+1)
	if in.shared {
		for w := address / 4; w < (address+n)/4; w++ {
			switch {
			case w >= uint64(len(l.Kernel.shared)) || !l.Kernel.shared[w]:
				return l.fault(t, at, fmt.Sprintf("address %#x is in no array of shared memory", address))
			case in.op == store:
				l.written[w] = l.blocks
			case l.written[w] != l.blocks:
				return l.fault(t, at, fmt.Sprintf("shared memory at %#x was not written", address))
			}
		}
	} else {
		m := l.last[at]
		if m == nil || !m.holds(address, n) {
			i, ok := l.memory.find(address)
			if !ok || !l.memory.ranges[i].holds(address, n) {
				return l.fault(t, at, fmt.Sprintf("%d bytes at address %#x are outside the memory", n, address))
			}
			m = l.memory.ranges[i]
			l.last[at] = m
			if m.uses == nil {
				m.uses = make([]use, (len(m.data)+3)/4)
			}
		}
		data, uses, offset = m.data, m.uses, address-m.from
		stamp = l.memory.launch<<threadBits | uint64((l.at.Y*l.grid.X+l.at.X)*l.threads+t+1)
	}
	for i := range in.count {
		v, at0 := &r[in.vector[i]], offset+uint64(i*in.size)
		if in.op == load {
			if *v = get(data, at0, in.size); in.signed {
				*v = uint64(signed(*v))
			}
		} else {
			put(data, at0, in.size, *v)
		}
	}
	for w := offset / 4; w < (offset+n)/4; w++ {
		if in.op == load && !uses[w].read(stamp) {
			return l.fault(t, at, fmt.Sprintf("a race: another thread wrote address %#x", address))
		} else if in.op == store && !uses[w].write(stamp) {
			return l.fault(t, at, fmt.Sprintf("a race: another thread used address %#x", address))
		}
	}
	return nil
}
