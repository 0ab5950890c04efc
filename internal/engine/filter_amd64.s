//go:build amd64 && (linux || darwin)

#include "textflag.h"

// bool evalFilter(struct ggml_tensor * t, bool ask, capture * c), System V ABI:
// DI = t, SI = ask, DX = c. It runs on a stack of C, maybe on a thread that Go does
// not know, and uses nothing of Go's. The offsets are those of struct ggml_tensor
// (256 name, 0 type, 16 ne) and of capture.
TEXT ·evalFilter(SB), NOSPLIT|NOFRAME, $0-0
	TESTB SI, SI
	JEQ   computed
	MOVQ  256(DI), AX
	ANDQ  16(DX), AX
	CMPQ  AX, 0(DX)
	JNE   no
	MOVQ  264(DI), AX
	ANDQ  24(DX), AX
	CMPQ  AX, 8(DX)
	JNE   no
	MOVL  $1, AX
	RET

computed:
	ADDQ  $1, 72(DX)
	CMPL  0(DI), $0
	JNE   shape
	MOVQ  16(DI), AX
	CMPQ  AX, 48(DX)
	JNE   shape
	MOVQ  24(DI), CX
	CMPQ  CX, 56(DX)
	JGT   shape
	CMPQ  32(DI), $1
	JNE   shape
	CMPQ  40(DI), $1
	JNE   shape
	MOVQ  CX, 64(DX)
	IMULQ AX, CX
	SHLQ  $2, CX
	MOVQ  40(DX), SI
	MOVQ  32(DX), AX
	XORL  DX, DX
	PUSHQ AX // aligns the stack to 16
	CALL  AX // ggml_backend_tensor_get(t, rows, 0, bytes)
	POPQ  CX

no:
	XORL AX, AX
	RET

shape:
	MOVQ $-1, 64(DX)
	XORL AX, AX
	RET

DATA ·evalFilterPC(SB)/8, $·evalFilter(SB)
GLOBL ·evalFilterPC(SB), NOPTR|RODATA, $8
