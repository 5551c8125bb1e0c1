#include "textflag.h"

// The layout of a call in the list: see type recorded.
#define NUMBER 0
#define ARGUMENT(n) (8+8*n)
#define WANT 56
#define IGNORED 64
#define SIZE 72

// makeCalls is all that a starter does: it makes the calls of the list, and ends with the error of
// the first that fails. It uses no stack, and can't be called here. The last call of a list
// executes a program.
TEXT makeCalls<>(SB), NOSPLIT|NOFRAME, $0-0
	MOVQ $0x20000000, R12 // listAddress

next:
	MOVQ NUMBER(R12), AX
	MOVQ ARGUMENT(0)(R12), DI
	MOVQ ARGUMENT(1)(R12), SI
	CMPQ AX, $-1
	JEQ  compare
	MOVQ ARGUMENT(2)(R12), DX
	MOVQ ARGUMENT(3)(R12), R10
	MOVQ ARGUMENT(4)(R12), R8
	MOVQ ARGUMENT(5)(R12), R9
	SYSCALL
	CMPQ AX, IGNORED(R12)
	JEQ  done
	CMPQ AX, $-4095 // errors are from -4095 to -1
	JCC  failed
	MOVQ WANT(R12), BX
	CMPQ BX, $-1
	JEQ  done
	CMPQ AX, BX
	JEQ  done

wrong:
	MOVQ $-74, AX // EBADMSG: another result than expected

failed:
	NEGQ AX
	MOVQ AX, DI
	MOVQ $231, AX // exit_group
	SYSCALL

done:
	ADDQ $SIZE, R12
	JMP  next

compare:
	MOVQ 0(DI), BX
	CMPQ BX, 0(SI)
	JNE  wrong
	MOVQ 8(DI), BX
	CMPQ BX, 8(SI)
	JNE  wrong
	JMP  done

	// the mark that ends the code: four undefined instructions
	UNDEF
	UNDEF
	UNDEF
	UNDEF
	RET

// func addressOfCalls() unsafe.Pointer
TEXT ·addressOfCalls(SB), NOSPLIT, $0-8
	LEAQ makeCalls<>(SB), AX
	MOVQ AX, ret+0(FP)
	RET
