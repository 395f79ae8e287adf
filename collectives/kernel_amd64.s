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

// LOAD, PLUS and JOIN work on 128 bytes: they load a piece, add a piece, and add registers.
#define LOAD(piece, a, b, c, d) \
	VMOVUPS (piece)(AX*1), a; \
	VMOVUPS 32(piece)(AX*1), b; \
	VMOVUPS 64(piece)(AX*1), c; \
	VMOVUPS 96(piece)(AX*1), d

#define PLUS(piece, a, b, c, d) \
	VADDPS (piece)(AX*1), a, a; \
	VADDPS 32(piece)(AX*1), b, b; \
	VADDPS 64(piece)(AX*1), c, c; \
	VADDPS 96(piece)(AX*1), d, d

#define JOIN(e, f, g, h, a, b, c, d) \
	VADDPS e, a, a; \
	VADDPS f, b, b; \
	VADDPS g, c, c; \
	VADDPS h, d, d

// func sumF32AVX(dsts, pieces *[]byte, nd, np, from, end int)
TEXT ·sumF32AVX(SB), NOSPLIT, $0-48
	MOVQ dsts+0(FP), R10
	MOVQ pieces+8(FP), R8
	MOVQ nd+16(FP), R11
	MOVQ np+24(FP), R9
	MOVQ from+32(FP), AX
	MOVQ end+40(FP), CX

block:
	MOVQ (R8), SI
	MOVQ 24(R8), DX
	LOAD(SI, Y0, Y1, Y2, Y3)
	PLUS(DX, Y0, Y1, Y2, Y3)
	CMPQ R9, $3
	JLT  store
	MOVQ 48(R8), SI
	JEQ  odd
	MOVQ 72(R8), DX
	LOAD(SI, Y4, Y5, Y6, Y7)
	PLUS(DX, Y4, Y5, Y6, Y7)
	JOIN(Y4, Y5, Y6, Y7, Y0, Y1, Y2, Y3)
	CMPQ R9, $5
	JLT  store
	MOVQ 96(R8), SI
	JEQ  odd
	MOVQ 120(R8), DX
	LOAD(SI, Y4, Y5, Y6, Y7)
	PLUS(DX, Y4, Y5, Y6, Y7)
	CMPQ R9, $7
	JLT  halves
	MOVQ 144(R8), SI
	JEQ  seven
	MOVQ 168(R8), DX
	LOAD(SI, Y8, Y9, Y10, Y11)
	PLUS(DX, Y8, Y9, Y10, Y11)
	JOIN(Y8, Y9, Y10, Y11, Y4, Y5, Y6, Y7)

halves:
	JOIN(Y4, Y5, Y6, Y7, Y0, Y1, Y2, Y3)

store:
	MOVQ R10, BX
	MOVQ R11, DX

next:
	MOVQ    (BX), DI
	VMOVUPS Y0, (DI)(AX*1)
	VMOVUPS Y1, 32(DI)(AX*1)
	VMOVUPS Y2, 64(DI)(AX*1)
	VMOVUPS Y3, 96(DI)(AX*1)
	ADDQ    $24, BX
	DECQ    DX
	JNZ     next
	ADDQ    $128, AX
	CMPQ    AX, CX
	JLT     block
	VZEROUPPER
	RET

odd:
	PLUS(SI, Y0, Y1, Y2, Y3)
	JMP store

seven:
	PLUS(SI, Y4, Y5, Y6, Y7)
	JMP halves
