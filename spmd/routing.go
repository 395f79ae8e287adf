package spmd

import "fmt"

// A Piece is a range [Lo, Hi) of a global batch that travels from member Src of one group to member
// Dst of another.
type Piece struct{ Src, Dst, Lo, Hi int }

// Overlaps cuts a batch into the pieces that go from each of srcSize members to each of dstSize, in
// the order of the batch. Both sides hold the batch in contiguous equal shares. batch must be a
// multiple of both sizes.
func Overlaps(batch, srcSize, dstSize int) ([]Piece, error) {
	if srcSize < 1 || dstSize < 1 || batch < 0 {
		return nil, fmt.Errorf("route a batch of %d from %d to %d members: expected at least one on each side", batch,
			srcSize, dstSize)
	}
	if batch%srcSize != 0 || batch%dstSize != 0 {
		return nil, fmt.Errorf("route a batch of %d from %d to %d members: expected a multiple of both", batch, srcSize,
			dstSize)
	}
	var pieces []Piece
	src, dst := batch/srcSize, batch/dstSize // items per member
	for lo := 0; lo < batch; {
		hi := min((lo/src+1)*src, (lo/dst+1)*dst)
		pieces = append(pieces, Piece{Src: lo / src, Dst: lo / dst, Lo: lo, Hi: hi})
		lo = hi
	}
	return pieces, nil
}
