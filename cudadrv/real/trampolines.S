/* Each function of symbols.h, bound when it is first called: a jump through a
 * table that holds the address of bind_trampoline until then. Linking with
 * -lcuda instead would put libcuda among the libraries that the loader must
 * find, and there would be no import on a machine without a driver. */

	.hidden	trampoline_table
	.hidden	trampoline_bind

	.set	trampoline_index, 0

	.macro	SYMBOL_TRAMPOLINE name
	.globl	\name
	.hidden	\name
	.type	\name, @function
	.p2align 4
\name:
	endbr64
	movq	trampoline_table+8*trampoline_index(%rip), %r11
	testq	%r11, %r11
	je	1f
	jmp	*%r11
1:	movl	$trampoline_index, %r11d
	jmp	bind
	.size	\name, .-\name
	.set	trampoline_index, trampoline_index+1
	.endm

	.text

/* Looks function r11 up and jumps there. On entry the stack is as the caller of
 * the function left it: rsp is 8 modulo 16. Every register that can hold an
 * argument is kept. */
	.type	bind, @function
	.p2align 4
bind:
	pushq	%rbp
	movq	%rsp, %rbp
	pushq	%rdi
	pushq	%rsi
	pushq	%rdx
	pushq	%rcx
	pushq	%r8
	pushq	%r9
	pushq	%rax
	pushq	%r10
	subq	$128, %rsp
	movups	%xmm0, (%rsp)
	movups	%xmm1, 16(%rsp)
	movups	%xmm2, 32(%rsp)
	movups	%xmm3, 48(%rsp)
	movups	%xmm4, 64(%rsp)
	movups	%xmm5, 80(%rsp)
	movups	%xmm6, 96(%rsp)
	movups	%xmm7, 112(%rsp)
	movl	%r11d, %edi
	call	trampoline_bind
	movq	%rax, %r11
	movups	(%rsp), %xmm0
	movups	16(%rsp), %xmm1
	movups	32(%rsp), %xmm2
	movups	48(%rsp), %xmm3
	movups	64(%rsp), %xmm4
	movups	80(%rsp), %xmm5
	movups	96(%rsp), %xmm6
	movups	112(%rsp), %xmm7
	addq	$128, %rsp
	popq	%r10
	popq	%rax
	popq	%r9
	popq	%r8
	popq	%rcx
	popq	%rdx
	popq	%rsi
	popq	%rdi
	popq	%rbp
	jmp	*%r11
	.size	bind, .-bind

#define SYMBOL(name) SYMBOL_TRAMPOLINE name
#include "symbols.h"

	.section .note.GNU-stack, "", @progbits
