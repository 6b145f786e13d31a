//! What is declared by hand against the installed headers: a C compiler is asked to agree with every size, place and value.

use std::fmt::Write as _;
use std::mem::offset_of;
use std::process::{Command, Stdio};

use super::*;

/// Claims about `struct $c`: where fields are, each by its name, or by Rust's and C's. A `whole` structure has C's size and
/// alignment; of one that later headers may make longer, or of which we need no more, the `start` is declared.
macro_rules! structure {
    ($claims:ident, $rust:ty, $c:literal, whole, $($rest:tt)*) => {
        claim(&mut $claims, format!("sizeof(struct {})", $c), "==", size_of::<$rust>());
        claim(&mut $claims, format!("_Alignof(struct {})", $c), "==", align_of::<$rust>());
        structure!($claims, $rust, $c, fields, $($rest)*);
    };
    ($claims:ident, $rust:ty, $c:literal, start, $($rest:tt)*) => {
        claim(&mut $claims, format!("sizeof(struct {})", $c), ">=", size_of::<$rust>());
        structure!($claims, $rust, $c, fields, $($rest)*);
    };
    ($claims:ident, $rust:ty, $c:literal, fields, $($($field:ident).+ $(= $name:literal)?),* $(,)?) => {
        $(
            let name = [$($name,)? stringify!($($field).+)][0];
            claim(
                &mut $claims,
                format!("offsetof(struct {}, {name})", $c),
                "==",
                offset_of!($rust, $($field).+),
            );
        )*
    };
}

macro_rules! values {
    ($claims:ident, $($rust:ident $c:ident),* $(,)?) => {
        $(claim(&mut $claims, stringify!($c).to_owned(), "==", $rust as usize);)*
    };
}

fn claim(claims: &mut String, what: String, relation: &str, value: usize) {
    writeln!(
        claims,
        "_Static_assert({what} {relation} {value}, \"{what}\");"
    )
    .expect("memory");
}

fn structures() -> String {
    let mut c = String::new();
    structure!(c, Context, "ibv_context", start, ops);
    structure!(
        c,
        ContextOps,
        "ibv_context_ops",
        whole,
        poll_cq,
        req_notify_cq,
        post_send,
        post_recv
    );
    structure!(c, CompChannel, "ibv_comp_channel", whole, fd);
    structure!(c, Mr, "ibv_mr", whole, lkey, rkey);
    structure!(c, Cq, "ibv_cq", start, context);
    structure!(c, Qp, "ibv_qp", start, context, qp_num);
    structure!(c, Sge, "ibv_sge", whole, addr, length, lkey);
    structure!(
        c,
        SendWr,
        "ibv_send_wr",
        whole,
        wr_id,
        next,
        sg_list,
        num_sge,
        opcode,
        send_flags,
        imm_data,
        remote_addr = "wr.rdma.remote_addr",
        rkey = "wr.rdma.rkey"
    );
    structure!(
        c,
        RecvWr,
        "ibv_recv_wr",
        whole,
        wr_id,
        next,
        sg_list,
        num_sge
    );
    structure!(
        c, Wc, "ibv_wc", whole, wr_id, status, opcode, vendor_err, byte_len, imm_data, qp_num,
        src_qp, wc_flags
    );
    structure!(
        c,
        QpCap,
        "ibv_qp_cap",
        whole,
        max_send_wr,
        max_recv_wr,
        max_send_sge,
        max_recv_sge,
        max_inline_data
    );
    structure!(
        c,
        QpInitAttr,
        "ibv_qp_init_attr",
        whole,
        qp_context,
        send_cq,
        recv_cq,
        srq,
        cap,
        qp_type,
        sq_sig_all
    );
    structure!(
        c,
        GlobalRoute,
        "ibv_global_route",
        whole,
        dgid,
        flow_label,
        sgid_index,
        hop_limit,
        traffic_class
    );
    structure!(
        c,
        AhAttr,
        "ibv_ah_attr",
        whole,
        grh,
        dlid,
        sl,
        src_path_bits,
        static_rate,
        is_global,
        port_num
    );
    structure!(
        c,
        QpAttr,
        "ibv_qp_attr",
        whole,
        qp_state,
        cur_qp_state,
        path_mtu,
        path_mig_state,
        qkey,
        rq_psn,
        sq_psn,
        dest_qp_num,
        qp_access_flags,
        cap,
        ah_attr,
        alt_ah_attr,
        pkey_index,
        alt_pkey_index,
        en_sqd_async_notify,
        sq_draining,
        max_rd_atomic,
        max_dest_rd_atomic,
        min_rnr_timer,
        port_num,
        timeout,
        retry_cnt,
        rnr_retry,
        alt_port_num,
        alt_timeout,
        rate_limit
    );
    structure!(
        c,
        DeviceAttr,
        "ibv_device_attr",
        whole,
        fw_ver,
        max_mr_size,
        vendor_id,
        vendor_part_id,
        max_qp,
        max_qp_wr,
        max_cqe,
        max_mr,
        max_qp_rd_atom,
        phys_port_cnt
    );
    c + &port_attributes()
}

/// Headers from rdma-core 49 on have a longer structure; the exported `ibv_query_port` still fills the start alone.
fn port_attributes() -> String {
    let mut c = String::new();
    structure!(
        c,
        PortAttr,
        "ibv_port_attr",
        start,
        state,
        max_mtu,
        active_mtu,
        gid_tbl_len,
        port_cap_flags,
        max_msg_sz,
        lid,
        link_layer,
        flags
    );
    c
}

fn connections() -> String {
    use cm::*;
    let mut c = String::new();
    structure!(c, cm::EventChannel, "rdma_event_channel", whole, fd);
    structure!(c, cm::Id, "rdma_cm_id", start, verbs);
    structure!(
        c,
        cm::ConnParam,
        "rdma_conn_param",
        whole,
        private_data,
        private_data_len,
        responder_resources,
        initiator_depth,
        flow_control,
        retry_count,
        rnr_retry_count,
        srq,
        qp_num
    );
    structure!(c, cm::Event, "rdma_cm_event", start, id, event, status);
    structure!(
        c,
        cm::SocketAddress,
        "sockaddr_in",
        fields,
        family = "sin_family",
        port = "sin_port",
        address = "sin_addr"
    );
    structure!(
        c,
        cm::SocketAddress,
        "sockaddr_in6",
        whole,
        family = "sin6_family",
        port = "sin6_port",
        address = "sin6_flowinfo"
    );
    values!(
        c, PS_TCP RDMA_PS_TCP, EVENT_ADDR_RESOLVED RDMA_CM_EVENT_ADDR_RESOLVED,
        EVENT_ROUTE_RESOLVED RDMA_CM_EVENT_ROUTE_RESOLVED,
        EVENT_CONNECT_REQUEST RDMA_CM_EVENT_CONNECT_REQUEST,
        EVENT_CONNECT_RESPONSE RDMA_CM_EVENT_CONNECT_RESPONSE,
        EVENT_ESTABLISHED RDMA_CM_EVENT_ESTABLISHED,
    );
    c
}

fn constants() -> String {
    let mut c = String::new();
    values!(
        c, QPS_INIT IBV_QPS_INIT, QPS_RTR IBV_QPS_RTR, QPS_RTS IBV_QPS_RTS, QPT_RC IBV_QPT_RC,
        WR_RDMA_WRITE IBV_WR_RDMA_WRITE, WR_SEND IBV_WR_SEND, WR_RDMA_READ IBV_WR_RDMA_READ,
        SEND_SIGNALED IBV_SEND_SIGNALED, SEND_INLINE IBV_SEND_INLINE,
        ACCESS_LOCAL_WRITE IBV_ACCESS_LOCAL_WRITE, ACCESS_REMOTE_WRITE IBV_ACCESS_REMOTE_WRITE,
        ACCESS_REMOTE_READ IBV_ACCESS_REMOTE_READ, QP_STATE IBV_QP_STATE,
        QP_ACCESS_FLAGS IBV_QP_ACCESS_FLAGS, QP_PKEY_INDEX IBV_QP_PKEY_INDEX,
        QP_PORT IBV_QP_PORT, QP_AV IBV_QP_AV, QP_PATH_MTU IBV_QP_PATH_MTU,
        QP_TIMEOUT IBV_QP_TIMEOUT, QP_RETRY_CNT IBV_QP_RETRY_CNT, QP_RNR_RETRY IBV_QP_RNR_RETRY,
        QP_RQ_PSN IBV_QP_RQ_PSN, QP_MAX_QP_RD_ATOMIC IBV_QP_MAX_QP_RD_ATOMIC,
        QP_MIN_RNR_TIMER IBV_QP_MIN_RNR_TIMER, QP_SQ_PSN IBV_QP_SQ_PSN,
        QP_MAX_DEST_RD_ATOMIC IBV_QP_MAX_DEST_RD_ATOMIC, QP_DEST_QPN IBV_QP_DEST_QPN,
        PORT_ACTIVE IBV_PORT_ACTIVE, LINK_LAYER_ETHERNET IBV_LINK_LAYER_ETHERNET,
        WC_SUCCESS IBV_WC_SUCCESS, WC_WR_FLUSH_ERR IBV_WC_WR_FLUSH_ERR,
        WC_RECV_RDMA_WITH_IMM IBV_WC_RECV_RDMA_WITH_IMM, WC_WITH_IMM IBV_WC_WITH_IMM,
        WR_RDMA_WRITE_WITH_IMM IBV_WR_RDMA_WRITE_WITH_IMM,
    );
    c
}

/// Whether C's compiler takes it; `None` where there is no compiler or no such header.
fn compiles(header: &str, claims: &str) -> Option<Result<(), String>> {
    let compile = |source: &str| {
        let mut compiler = Command::new("cc")
            .args(["-x", "c", "-fsyntax-only", "-"])
            .stdin(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .ok()?;
        std::io::Write::write_all(&mut compiler.stdin.take()?, source.as_bytes()).ok()?;
        let output = compiler.wait_with_output().ok()?;
        Some(match output.status.success() {
            true => Ok(()),
            false => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
        })
    };
    let include = format!("#include <stddef.h>\n#include <{header}>\n");
    compile(&include)?.ok()?;
    compile(&(include + claims))
}

#[test]
fn declarations_agree_with_the_headers() {
    let verbs = compiles("infiniband/verbs.h", &(structures() + &constants()));
    match verbs {
        Some(agreed) => agreed.unwrap_or_else(|why| panic!("{why}")),
        None => println!("skipped: no headers or no compiler; apt-get install libibverbs-dev gcc"),
    }
}

#[test]
fn declarations_of_connections_agree_with_the_headers() {
    match compiles("rdma/rdma_cma.h", &connections()) {
        Some(agreed) => agreed.unwrap_or_else(|why| panic!("{why}")),
        None => println!("skipped: no headers or no compiler; apt-get install librdmacm-dev gcc"),
    }
}

#[test]
fn a_wrong_claim_is_seen() {
    let mut wrong = String::new();
    claim(&mut wrong, "sizeof(struct ibv_sge)".to_owned(), "==", 17);
    match compiles("infiniband/verbs.h", &wrong) {
        Some(agreed) => assert!(
            agreed
                .expect_err("is 16")
                .contains("sizeof(struct ibv_sge)")
        ),
        None => println!("skipped: no headers or no compiler; apt-get install libibverbs-dev gcc"),
    }
}

/// `struct ibv_port_attr` without its end, which is one field up to rdma-core 48.
const PORT_ATTRIBUTES: &str = "struct ibv_port_attr {
    int state, max_mtu, active_mtu, gid_tbl_len;
    uint32_t port_cap_flags, max_msg_sz, bad_pkey_cntr, qkey_viol_cntr;
    uint16_t pkey_tbl_len, lid, sm_lid;
    uint8_t lmc, max_vl_num, sm_sl, subnet_timeout, init_type_reply, active_width, active_speed, phys_state, link_layer, flags;";

#[test]
fn port_attributes_may_become_longer_but_not_shorter() {
    for (end, is_right) in [
        ("};\n", false),
        ("uint16_t port_cap_flags2; };\n", true),
        (
            "uint16_t port_cap_flags2; uint32_t active_speed_ex; };\n",
            true,
        ),
    ] {
        let c = PORT_ATTRIBUTES.to_owned() + end + &port_attributes();
        match compiles("stdint.h", &c) {
            Some(agreed) => assert_eq!(agreed.is_ok(), is_right, "{agreed:?}"),
            None => println!("skipped: no compiler; apt-get install gcc"),
        }
    }
}
