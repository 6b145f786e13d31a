//! Peers written in Rust, or whose C sources a crate brings along.

use std::sync::Mutex;

use dpb_core::{
    Batch, BatchOut, BlockLoss, DeflateFormat, ErasureCode, HmacHash, JobError, Kernel, Material,
    OpSpec, OutputShape, spec,
};
use dpb_operators::direct::{Direct, direct};
use dpb_operators::storage::xxh3::Xxh3;

/// The peer called `name` in the registry for `spec`, if there is a call for it here.
pub fn find(name: &str, spec: &OpSpec) -> Option<Box<dyn Direct>> {
    let kinds = [null, checksum, hash, compressor, erasure];
    kinds.iter().find_map(|find| find(name, spec))
}

/// The operator that does nothing.
fn null(name: &str, spec: &OpSpec) -> Option<Box<dyn Direct>> {
    Some(match (name, spec.name()) {
        ("null-crate", _) if spec.is::<spec::Custom>() => {
            item_by_item(OutputShape::Fixed(4), |item, slot| {
                slot.copy_from_slice(&(item.len() as u32).to_le_bytes());
                4
            })
        }
        _ => return None,
    })
}

/// Cyclic redundancy checks.
fn checksum(name: &str, spec: &OpSpec) -> Option<Box<dyn Direct>> {
    Some(match (name, spec.name()) {
        ("crc-fast", "crc32c") => item_by_item(OutputShape::Fixed(4), |item, slot| {
            slot.copy_from_slice(&crc_fast::crc32_iscsi(item).to_le_bytes());
            4
        }),
        ("crc32c", "crc32c") => item_by_item(OutputShape::Fixed(4), |item, slot| {
            slot.copy_from_slice(&crc32c::crc32c(item).to_le_bytes());
            4
        }),
        ("crc-fast", "crc32") => item_by_item(OutputShape::Fixed(4), |item, slot| {
            slot.copy_from_slice(&crc_fast::crc32_iso_hdlc(item).to_le_bytes());
            4
        }),
        ("crc-fast", "crc16-t10dif") => item_by_item(OutputShape::Fixed(2), |item, slot| {
            let crc = crc_fast::checksum(crc_fast::CrcAlgorithm::Crc16T10Dif, item);
            slot.copy_from_slice(&(crc as u16).to_be_bytes());
            2
        }),
        ("crc-fast", "crc64-nvme") => item_by_item(OutputShape::Fixed(8), |item, slot| {
            slot.copy_from_slice(&crc_fast::crc64_nvme(item).to_le_bytes());
            8
        }),
        _ => return None,
    })
}

/// Hash functions and message authentication codes.
fn hash(name: &str, spec: &OpSpec) -> Option<Box<dyn Direct>> {
    Some(match (name, spec.name()) {
        ("md-5", "md5") => digest::<md5::Md5>(),
        ("sha1", "sha1") => digest::<sha1::Sha1>(),
        ("sha2", "sha256") => digest::<sha2::Sha256>(),
        ("sha2", "sha512") => digest::<sha2::Sha512>(),
        ("hmac", _) => {
            let sessions = spec.get::<spec::Sessions>();
            let spec::Hmac { hash, key } = sessions.map_or(spec, |sessions| &sessions.of).get()?;
            let keys = sessions.map(|sessions| &*sessions.keys);
            match hash {
                HmacHash::Md5 => code::<hmac::Hmac<md5::Md5>>(key, keys),
                HmacHash::Sha1 => code::<hmac::Hmac<sha1::Sha1>>(key, keys),
                HmacHash::Sha256 => code::<hmac::Hmac<sha2::Sha256>>(key, keys),
                HmacHash::Sha512 => code::<hmac::Hmac<sha2::Sha512>>(key, keys),
            }
        }
        ("twox-hash", "xxh3-64") => {
            let &Xxh3 { seed } = spec.get()?;
            item_by_item(OutputShape::Fixed(8), move |item, slot| {
                let hash = twox_hash::XxHash3_64::oneshot_with_seed(seed, item);
                slot.copy_from_slice(&hash.to_be_bytes());
                8
            })
        }
        _ => return None,
    })
}

/// Compressors and their decoders.
fn compressor(name: &str, spec: &OpSpec) -> Option<Box<dyn Direct>> {
    Some(match (name, spec.name()) {
        ("zlib-rs", "deflate") => {
            let &spec::Deflate { level, format } = spec.get()?;
            let mut config = zlib_rs::DeflateConfig::new(i32::from(level));
            config.window_bits = window_bits(format);
            let stream = Mutex::new(zlib_rs::Deflate::new_with_config(config));
            item_by_item(OutputShape::Variable, move |item, slot| {
                let mut stream = stream.lock().expect("no call panics");
                stream.reset();
                let status = stream.compress(item, slot, zlib_rs::DeflateFlush::Finish);
                assert_eq!(status, Ok(zlib_rs::Status::StreamEnd), "a slot that fits");
                stream.total_out() as usize
            })
        }
        ("zlib-rs", "inflate") => match spec.get::<spec::Inflate>()?.format {
            // Its reset keeps no gzip wrapper: there a stream is made for each item.
            DeflateFormat::Gzip => item_by_item(OutputShape::Variable, move |item, slot| {
                let window_bits = window_bits(DeflateFormat::Gzip);
                let config = zlib_rs::InflateConfig { window_bits };
                zlib_rs::decompress_slice(slot, item, config).0.len()
            }),
            format => {
                let has_header = format == DeflateFormat::Zlib;
                let stream = Mutex::new(zlib_rs::Inflate::new(has_header, 15));
                item_by_item(OutputShape::Variable, move |item, slot| {
                    let mut stream = stream.lock().expect("no call panics");
                    stream.reset(has_header);
                    let status = stream.decompress(item, slot, zlib_rs::InflateFlush::Finish);
                    assert_eq!(status, Ok(zlib_rs::Status::StreamEnd), "a whole stream");
                    stream.total_out() as usize
                })
            }
        },
        ("lz4_flex", "unlz4") => item_by_item(OutputShape::Variable, |item, slot| {
            lz4_flex::block::decompress_into(item, slot).expect("a block")
        }),
        ("lz4_flex", "lz4") => {
            use lz4_flex::block as flex;
            // Tables for items below 64 KiB and above. lz4_flex asks for more room than a block can need, which the slots do not have; so its blocks are
            // copied once more.
            let tables = [flex::CompressTable::small(), flex::CompressTable::large()];
            let memory = Mutex::new((tables, Vec::new()));
            item_by_item(OutputShape::Variable, move |item, slot| {
                let (tables, room) = &mut *memory.lock().expect("no call panics");
                let table = &mut tables[usize::from(item.len() >= usize::from(u16::MAX))];
                let most = flex::get_maximum_output_size(item.len());
                room.resize(most.max(room.len()), 0);
                let block = flex::compress_into_with_table(item, room, table);
                let block = &room[..block.expect("room")];
                slot[..block.len()].copy_from_slice(block);
                block.len()
            })
        }
        ("lz4", "lz4") => item_by_item(OutputShape::Variable, |item, slot| {
            lz4::block::compress_to_buffer(item, None, false, slot).expect("a slot that fits")
        }),
        ("lz4", "unlz4") => item_by_item(OutputShape::Variable, |item, slot| {
            let room = i32::try_from(slot.len()).expect("below 2 GiB");
            lz4::block::decompress_to_buffer(item, Some(room), slot).expect("a block")
        }),
        _ => return None,
    })
}

/// Erasure codes.
fn erasure(name: &str, spec: &OpSpec) -> Option<Box<dyn Direct>> {
    Some(match (name, spec.name()) {
        ("rusty_erasure", "erasure-encode") => {
            let &spec::ErasureEncode { code } = spec.get()?;
            match code.blocks() {
                ..=BLOCKS_USUAL => parity::<BLOCKS_USUAL>(code),
                _ => parity::<{ ErasureCode::BLOCKS_MAX }>(code),
            }
        }
        ("rusty_erasure", "erasure-recover") => {
            let spec::ErasureRecover { loss } = spec.get()?;
            match loss.code().blocks() {
                ..=BLOCKS_USUAL => recovery::<BLOCKS_USUAL>(loss),
                _ => recovery::<{ ErasureCode::BLOCKS_MAX }>(loss),
            }
        }
        _ => return None,
    })
}

/// The most blocks of the codes that are used: they have room on the stack, where an allocation would count.
const BLOCKS_USUAL: usize = 32;

/// The parity blocks, of a code of at most `MAX` blocks.
fn parity<const MAX: usize>(code: ErasureCode) -> Box<dyn Direct> {
    let coder = coder(code);
    item_by_item(OutputShape::Variable, move |item, slot| {
        let block_bytes = item.len() / code.data_blocks();
        let len = block_bytes * code.parity_blocks();
        let mut data = item.chunks_exact(block_bytes);
        let data: [&[u8]; MAX] = std::array::from_fn(|_| data.next().unwrap_or_default());
        let mut parity = blocks::<MAX>(&mut slot[..len], block_bytes);
        let (data, parity) = (
            &data[..code.data_blocks()],
            &mut parity[..code.parity_blocks()],
        );
        coder.encode(data, parity).expect("blocks of a code");
        len
    })
}

/// The missing blocks, by a plan that is made once.
fn recovery<const MAX: usize>(loss: &BlockLoss) -> Box<dyn Direct> {
    let (code, coder) = (loss.code(), coder(loss.code()));
    let missing: Vec<usize> = loss.missing().map(usize::from).collect();
    let available: Vec<usize> = loss.available().map(usize::from).collect();
    let is_present: Vec<bool> = (0..code.blocks())
        .map(|block| available.contains(&block))
        .collect();
    let plan = coder.decode_plan(&is_present, &missing);
    let plan = plan.expect("a loss that can be recovered");
    item_by_item(OutputShape::Variable, move |item, slot| {
        let block_bytes = item.len() / code.data_blocks();
        let mut present = [None; MAX];
        for (&block, bytes) in available.iter().zip(item.chunks_exact(block_bytes)) {
            present[block] = Some(bytes);
        }
        let len = block_bytes * missing.len();
        let mut lost = blocks::<MAX>(&mut slot[..len], block_bytes);
        let (present, lost) = (&present[..code.blocks()], &mut lost[..missing.len()]);
        let recovered = coder.recover_with(&plan, present, lost);
        recovered.expect("blocks of a code");
        len
    })
}

/// The blocks that lie one behind another in `bytes`.
fn blocks<const MAX: usize>(bytes: &mut [u8], block_bytes: usize) -> [&mut [u8]; MAX] {
    let mut blocks = bytes.chunks_exact_mut(block_bytes);
    std::array::from_fn(|_| blocks.next().unwrap_or_default())
}

fn coder(code: ErasureCode) -> rusty_erasure::Coder {
    let matrix = rusty_erasure::Matrix::cauchy(code.data_blocks(), code.parity_blocks());
    rusty_erasure::coder(matrix.expect("a code")).expect("a code")
}

/// A hash function of RustCrypto's.
fn digest<D: sha2::Digest>() -> Box<dyn Direct> {
    let bytes = <D as sha2::Digest>::output_size();
    item_by_item(OutputShape::Fixed(bytes), move |item, slot| {
        slot.copy_from_slice(&D::digest(item));
        bytes
    })
}

/// A message authentication code of RustCrypto's, with its key taken in already, or those of sessions.
fn code<M>(key: &Material, sessions: Option<&[Material]>) -> Box<dyn Direct>
where
    M: hmac::Mac + hmac::KeyInit + Clone + Send + Sync + 'static,
{
    let keyed =
        |key: &Material| <M as hmac::KeyInit>::new_from_slice(key.bytes()).expect("any length");
    let bytes = <M as hmac::digest::OutputSizeUser>::output_size();
    let write = move |keyed: &M, item: &[u8], slot: &mut [u8]| {
        let code = keyed.clone().chain_update(item).finalize();
        slot[..bytes].copy_from_slice(&code.into_bytes());
        bytes
    };
    match sessions {
        None => {
            let keyed = keyed(key);
            item_by_item(OutputShape::Fixed(bytes), move |item, slot| {
                write(&keyed, item, slot)
            })
        }
        Some(keys) => {
            let sessions: Vec<M> = keys.iter().map(keyed).collect();
            item_by_item(OutputShape::Variable, move |item, slot| {
                let (number, item) = item.split_first_chunk().expect("begins with a session");
                write(&sessions[u32::from_le_bytes(*number) as usize], item, slot)
            })
        }
    }
}

/// zlib's way of asking for a wrapper.
fn window_bits(format: DeflateFormat) -> i32 {
    match format {
        DeflateFormat::Raw => -15,
        DeflateFormat::Zlib => 15,
        DeflateFormat::Gzip => 16 + 15,
    }
}

fn item_by_item(
    shape: OutputShape,
    call: impl Fn(&[u8], &mut [u8]) -> usize + Send + Sync + 'static,
) -> Box<dyn Direct> {
    direct(ItemByItem(shape, call))
}

/// A peer, which takes one item a call and says how long its output is.
struct ItemByItem<F>(OutputShape, F);

impl<F> Kernel for ItemByItem<F>
where
    F: Fn(&[u8], &mut [u8]) -> usize + Send + Sync + 'static,
{
    type Scratch = ();

    fn scratch(&self) {}

    fn shape(&self) -> OutputShape {
        self.0
    }

    fn dst_len(&self, item_len: usize) -> usize {
        item_len
    }

    fn run(&self, batch: Batch<'_>, out: BatchOut<'_>, _scratch: &mut ()) -> Result<(), JobError> {
        match self.0 {
            OutputShape::Fixed(_) => out.each(batch, |item, slot| {
                (self.1)(item, slot);
            }),
            OutputShape::Variable => out.each_outcome(batch, |item, slot| {
                let len = (self.1)(item, slot);
                u32::try_from(len).map_err(|_| JobError::TooLong)
            }),
        }
        Ok(())
    }
}
