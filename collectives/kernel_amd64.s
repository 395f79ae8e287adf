#include "textflag.h"

// func addF32AVX(dst, a, b *float32, n int)
TEXT ·addF32AVX(SB), NOSPLIT, $0-32
	MOVQ dst+0(FP), DI
	MOVQ a+8(FP), SI
	MOVQ b+16(FP), DX
	MOVQ n+24(FP), CX
	XORQ AX, AX

loop:
	VMOVUPS (SI)(AX*4), Y0
	VMOVUPS 32(SI)(AX*4), Y1
	VMOVUPS 64(SI)(AX*4), Y2
	VMOVUPS 96(SI)(AX*4), Y3
	VADDPS  (DX)(AX*4), Y0, Y0
	VADDPS  32(DX)(AX*4), Y1, Y1
	VADDPS  64(DX)(AX*4), Y2, Y2
	VADDPS  96(DX)(AX*4), Y3, Y3
	VMOVUPS Y0, (DI)(AX*4)
	VMOVUPS Y1, 32(DI)(AX*4)
	VMOVUPS Y2, 64(DI)(AX*4)
	VMOVUPS Y3, 96(DI)(AX*4)
	ADDQ    $32, AX
	CMPQ    AX, CX
	JLT     loop
	VZEROUPPER
	RET

// func sumF32AVX(dsts, pieces *[]byte, nd, np, from, end int)
TEXT ·sumF32AVX(SB), NOSPLIT, $0-48
	MOVQ dsts+0(FP), R10
	MOVQ pieces+8(FP), R8
	MOVQ nd+16(FP), R11
	MOVQ np+24(FP), R9
	MOVQ from+32(FP), AX
	MOVQ end+40(FP), CX

block:
	MOVQ    R8, BX
	MOVQ    R9, DX
	MOVQ    (BX), SI
	VMOVUPS (SI)(AX*1), Y0
	VMOVUPS 32(SI)(AX*1), Y1
	VMOVUPS 64(SI)(AX*1), Y2
	VMOVUPS 96(SI)(AX*1), Y3
	JMP     next

add:
	ADDQ   $24, BX
	MOVQ   (BX), SI
	VADDPS (SI)(AX*1), Y0, Y0
	VADDPS 32(SI)(AX*1), Y1, Y1
	VADDPS 64(SI)(AX*1), Y2, Y2
	VADDPS 96(SI)(AX*1), Y3, Y3

next:
	DECQ DX
	JNZ  add
	MOVQ R10, BX
	MOVQ R11, DX

store:
	MOVQ    (BX), DI
	VMOVUPS Y0, (DI)(AX*1)
	VMOVUPS Y1, 32(DI)(AX*1)
	VMOVUPS Y2, 64(DI)(AX*1)
	VMOVUPS Y3, 96(DI)(AX*1)
	ADDQ    $24, BX
	DECQ    DX
	JNZ     store
	ADDQ    $128, AX
	CMPQ    AX, CX
	JLT     block
	VZEROUPPER
	RET
