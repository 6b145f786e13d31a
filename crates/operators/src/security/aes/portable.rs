//! The oracle: RustCrypto's AES in its modes, and XTS as IEEE 1619 has it.

use aes::cipher::array::Array;
use aes::cipher::consts::U16;
use aes::cipher::{
    BlockCipherDecrypt, BlockCipherEncrypt, BlockModeDecrypt, BlockModeEncrypt, BlockSizeUser,
    InnerIvInit, KeyInit, StreamCipherCore,
};
use aes::{Aes128, Aes256};
use aes_gcm::AesGcm;
use aes_gcm::aead::AeadInOut;
use ctr::CtrCore;
use ctr::flavors::Ctr128BE;
use dpb_core::{Direction, JobError};

use super::form::{BLOCK, Form, Mode, Parts, Places, Work};
use super::{Code, Coder};

/// A block cipher with its key in a mode.
struct Portable<C> {
    form: Form,
    cipher: C,
    gcm: AesGcm<C, aes::cipher::consts::U12>,
    /// The cipher that encrypts the tweak of XTS.
    tweak: C,
}

/// In the mode that `form` says; `key` has a length that there is.
pub(super) fn new(form: Form, key: &[u8]) -> Box<dyn Code> {
    match key.len() / form.keys() {
        16 => Box::new(Portable::<Aes128>::new(form, key)),
        _ => Box::new(Portable::<Aes256>::new(form, key)),
    }
}

impl<C> Portable<C>
where
    C: BlockCipherEncrypt + BlockCipherDecrypt + BlockSizeUser<BlockSize = U16> + KeyInit + Clone,
{
    fn new(form: Form, key: &[u8]) -> Self {
        let mut keys = key.chunks_exact(key.len() / form.keys());
        let mut next = || {
            keys.next()
                .map(|key| C::new_from_slice(key).expect("its length"))
        };
        let cipher = next().expect("a key");
        let tweak = next().unwrap_or_else(|| cipher.clone());
        Self {
            form,
            gcm: AesGcm::from(cipher.clone()),
            cipher,
            tweak,
        }
    }

    fn seal(&self, parts: Parts<'_>) -> Result<(), JobError> {
        let nonce = parts.iv.try_into().expect("twelve bytes");
        let sealed = self
            .gcm
            .encrypt_inout_detached(nonce, parts.aad, parts.text);
        let tag = sealed.map_err(|_| JobError::TooLong)?;
        parts.tag_to.copy_from_slice(&tag);
        Ok(())
    }

    fn open(&self, parts: Parts<'_>) -> Result<(), JobError> {
        let nonce = parts.iv.try_into().expect("twelve bytes");
        let tag = parts.tag.try_into().expect("sixteen bytes");
        let mut text = parts.text;
        let opened = self
            .gcm
            .decrypt_inout_detached(nonce, parts.aad, text.reborrow(), tag);
        if opened.is_err() {
            text.get_out().fill(0);
            return Err(JobError::Malformed);
        }
        Ok(())
    }

    fn ctr(&self, parts: Parts<'_>) -> Result<(), JobError> {
        let cipher = &self.cipher;
        let ctr = CtrCore::<&C, Ctr128BE>::inner_iv_init(cipher, block(parts.iv));
        ctr.apply_keystream_partial(parts.text);
        Ok(())
    }

    fn cbc_encrypt(&self, parts: Parts<'_>) -> Result<(), JobError> {
        let mut mode = cbc::Encryptor::inner_iv_init(&self.cipher, block(parts.iv));
        mode.encrypt_blocks_inout(parts.text.into_chunks().0);
        Ok(())
    }

    fn cbc_decrypt(&self, parts: Parts<'_>) -> Result<(), JobError> {
        let mut mode = cbc::Decryptor::inner_iv_init(&self.cipher, block(parts.iv));
        mode.decrypt_blocks_inout(parts.text.into_chunks().0);
        Ok(())
    }

    /// IEEE 1619, 5.3 and 5.4.
    #[inline(always)]
    fn xts(&self, direction: Direction, parts: Parts<'_>) -> Result<(), JobError> {
        let mut tweak = *block(parts.iv);
        let unit = parts.text.into_out_with_copied_in();
        self.tweak.encrypt_block(&mut tweak);
        let whole = unit.len() / BLOCK;
        let rest = unit.len() % BLOCK;
        // With a short block at the end, the last whole one is not done in turn.
        let in_turn = whole - usize::from(rest != 0);
        let (blocks, last) = unit.split_at_mut(in_turn * BLOCK);
        for block in blocks.chunks_exact_mut(BLOCK) {
            self.xts_block(direction, &tweak, block);
            tweak = times_alpha(tweak);
        }
        if rest == 0 {
            return Ok(());
        }
        let next = times_alpha(tweak);
        let (first, second) = match direction {
            Direction::Encrypt => (tweak, next),
            Direction::Decrypt => (next, tweak),
        };
        let (block, short) = last.split_at_mut(BLOCK);
        self.xts_block(direction, &first, block);
        // The short block becomes what it stole, and its own bytes take that place.
        block[..rest].swap_with_slice(short);
        self.xts_block(direction, &second, block);
        Ok(())
    }

    fn xts_block(&self, direction: Direction, tweak: &Array<u8, U16>, block: &mut [u8]) {
        let block: &mut Array<u8, U16> = block.try_into().expect("a block");
        let add = |block: &mut Array<u8, U16>| {
            for (byte, tweak) in block.iter_mut().zip(tweak) {
                *byte ^= tweak;
            }
        };
        add(block);
        match direction {
            Direction::Encrypt => self.cipher.encrypt_block(block),
            Direction::Decrypt => self.cipher.decrypt_block(block),
        }
        add(block);
    }
}

impl<C> Coder for Portable<C>
where
    C: BlockCipherEncrypt
        + BlockCipherDecrypt
        + BlockSizeUser<BlockSize = U16>
        + KeyInit
        + Clone
        + Send
        + Sync,
{
    fn on<'a>(&self, work: Work<'a, impl Places<'a>>) {
        use Direction::{Decrypt, Encrypt};
        // Each mode has a loop of its own, which knows where an item's parts lie.
        let form = self.form;
        match (form.mode, form.direction) {
            (Mode::Gcm, Encrypt) => {
                let form = form.known(Mode::Gcm, Encrypt);
                form.each(work, |parts| self.seal(parts));
            }
            (Mode::Gcm, Decrypt) => {
                let form = form.known(Mode::Gcm, Decrypt);
                form.each(work, |parts| self.open(parts));
            }
            (Mode::Ctr, _) => {
                let form = form.known(Mode::Ctr, Encrypt);
                form.each(work, |parts| self.ctr(parts));
            }
            (Mode::Cbc, Encrypt) => {
                let form = form.known(Mode::Cbc, Encrypt);
                form.each(work, |parts| self.cbc_encrypt(parts));
            }
            (Mode::Cbc, Decrypt) => {
                let form = form.known(Mode::Cbc, Decrypt);
                form.each(work, |parts| self.cbc_decrypt(parts));
            }
            (Mode::Xts, Encrypt) => {
                let form = form.known(Mode::Xts, Encrypt);
                form.each(work, |parts| self.xts(Encrypt, parts));
            }
            (Mode::Xts, Decrypt) => {
                let form = form.known(Mode::Xts, Decrypt);
                form.each(work, |parts| self.xts(Decrypt, parts));
            }
        }
    }
}

/// Of every mode but GCM.
fn block(iv: &[u8]) -> &Array<u8, U16> {
    iv.try_into().expect("sixteen bytes")
}

/// Multiplication by α in GF(2^128), the first byte's lowest bit being the lowest (IEEE 1619, 5.2).
fn times_alpha(tweak: Array<u8, U16>) -> Array<u8, U16> {
    let tweak = u128::from_le_bytes(tweak.into());
    let carry = (tweak >> 127).wrapping_neg() & 0x87;
    Array::from((tweak << 1 ^ carry).to_le_bytes())
}
