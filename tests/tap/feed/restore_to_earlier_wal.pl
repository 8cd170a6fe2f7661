# Tests restores and a promotion that undo changes: each client receives a gap, and another one for the changes committed
# before the new slot exists; undone transactions do not delay the rows of live rules.
use strict;
use warnings;

use Clairon::Test qw(wait_until token amount);
use JSON ();
use Test::More;

use constant UNDONE => amount(150, 1000);

my $archive = Clairon::Test::scratch() . '/archive';
mkdir $archive or die "could not create $archive: $!";
my $server = Clairon::Test::postgresql('original', conf => "archive_mode = on\narchive_command = 'cp \"%p\" \"$archive/%f\"'\n");
my $rows   = 0;
sub sql { return $server->safe_psql('postgres', $_[0]) }

# Inserts rows in separate transactions. Returns the id of the last row.
sub insert
{
    my ($count) = @_;
    sql(join ';', map { "INSERT INTO t VALUES ($_, 'u1')" } $rows + 1 .. $rows + $count);
    return $rows += $count;
}

sql(q{
    CREATE TABLE t (id int PRIMARY KEY, owner text);
    ALTER TABLE t REPLICA IDENTITY FULL;
    SELECT clairon.watch('t', 'USER', 'owner', live => true);
    SELECT clairon.watch('t', 'GROUP', '=g', name => 'group', live => true);
    INSERT INTO clairon.member VALUES ('GROUP', 'g', 'u1')});
my $standby = Clairon::Test::standby($server);
my $store   = Clairon::Test::store();
my $relay   = Clairon::Test::relay($server, $store);
my $second  = Clairon::Test::relay(undef, $store, roles => 'gate', conf => { 'rows.conninfo' => $relay->{settings}{'feed.conninfo'} });
insert(3);
sql(q{CHECKPOINT});
$server->backup('base');
sql(q{INSERT INTO clairon.member VALUES ('GROUP', 'g', 'u2')});
insert(3);
sql(q{SELECT pg_create_restore_point('point'), pg_switch_wal()});
$server->wait_for_catchup($standby);
$standby->stop;

# Returns a server at the address of the former one that recovers from the archive to the restore point. It knows the
# later timelines unless `history` is false. Its WAL is archived if `archive` is true. It pauses at the restore point, in
# recovery, if `pause` is true.
sub restored
{
    my ($name, %options) = @_;
    my $node = Clairon::Test::Cluster->new($name, port => $server->port);
    my $base = $server->{base} // $server;
    $node->init_from_backup($base, 'base');
    my $skip = $options{history} ? '' : 'case %f in *.history) exit 1;; esac; ';
    $node->append_conf('postgresql.conf', "restore_command = '${skip}cp \"$archive/%f\" \"%p\"'\nrecovery_target_name = 'point'\n"
          . 'recovery_target_action = ' . ($options{pause} ? 'pause' : 'promote') . "\n"
          . 'archive_mode = ' . ($options{archive} ? 'on' : 'off') . "\n");
    open my $signal, '>', $node->data_dir . '/recovery.signal' or die "could not create the file: $!";
    close $signal;
    Clairon::Test::remember($node);
    $node->{base} = $base;
    return $node;
}

# Replaces the server, whose latest transactions the new server lacks, and checks what the clients receive.
sub check_replaced
{
    my ($name, $timeline, $node, %options) = @_;
    my %clients = (second => $second->client('u1'));
    $clients{first} = $relay->client('u1') unless $options{is_late};
    my $last = insert(UNDONE);
    sql(q{INSERT INTO clairon.member VALUES ('GROUP', 'g', 'undone')});
    $_->wait_row($last) for values %clients;
    wait_until('the membership is stored', sub { $store->execute('SISMEMBER', $store->shared('members:GROUP:g'), 'undone') });
    $relay->stop if $options{is_late};
    my $end = sql('SELECT pg_current_wal_lsn()');
    $server->stop('immediate');
    $server = $node;
    my $before = $relay->log_mark;
    $server->start;
    if ($options{is_paused})
    {
        $relay->wait_for_log(qr/changes lost with the slot/, from => $before);
        kill STOP => $relay->pid; # otherwise it may create the slot on the standby
        wait_until('recovery is paused', sub { sql('SELECT pg_get_wal_replay_pause_state()') eq 'paused' });
        sql('SELECT pg_promote()');
    }
    wait_until('the server is promoted', sub { sql('SELECT pg_is_in_recovery()') eq 'f' });
    $rows = sql('CHECKPOINT; SELECT max(id) FROM t');
    is(sql('SELECT timeline_id FROM pg_control_checkpoint()'), $timeline, "$name: the server is on timeline $timeline");
    wait_until('the WAL has passed the undone changes', sub { sql("SELECT pg_switch_wal(); CHECKPOINT; SELECT pg_current_wal_lsn() > '$end'") =~ /t$/ }) if $options{is_late};

    # The new slot waits for a transaction. A client that reloads meanwhile lacks the changes until the slot exists.
    my $open = $server->background_psql('postgres');
    $open->query_safe('BEGIN; SELECT pg_current_xact_id()');
    my $mark = $relay->log_mark;
    $relay->start if $options{is_late};
    kill CONT => $relay->pid;
    $relay->wait_for_log(qr/creating slot/, from => $mark);
    is($_->wait_for('gap')->{why}, 'epoch', "$name: a connected client receives a gap") for values %clients;
    $clients{early} = $relay->client('u1');
    my $early = $clients{early}->pos;
    insert(2);
    $open->query_safe('COMMIT');
    $open->quit;
    $relay->wait_for_log(qr/slot created/, from => $mark);
    for my $which (sort keys %clients)
    {
        my $expected = $which eq 'early' ? 'epoch' : 'epoch epoch';
        ok(eval { $clients{$which}->run_until('the gap', sub { $clients{$which}->gaps eq $expected }); 1 },
            "$name: the client '$which' receives a gap for the changes before the slot existed");
    }
    $relay->wait_ready;
    my $resumed = $second->client('u1', pos => $early);
    ok(!$resumed->wait_for('connected')->{resumed}, "$name: a cursor from before the slot existed is not resumed");

    my $began = time;
    my $ids   = sql('SELECT json_agg(id ORDER BY id) FROM t') =~ s/\s//gr;
    $clients{new} = $second->client('u1');
    for my $rule (qw(default group))
    {
        for my $which (sort keys %clients)
        {
            $clients{$which}{messages} = [];
            $clients{$which}->send({ t => 'rows', r => 7, source => 't', rule => $rule });
            my $reply = $clients{$which}->wait_for(sub { ($_[0]{r} // 0) == 7 });
            is('[' . join(',', map { $_->{id} } @{ $reply->{rows} // [] }) . ']', $ids, "$name: the client '$which' receives the rows of rule $rule")
              or diag(JSON::encode_json($reply));
        }
        for my $at ($relay, $second)
        {
            my ($status, $body) = $at->get("/v1/rows?source=t&rule=$rule", Authorization => 'Bearer ' . token(sub => 'u1'));
            is($status, 200, "$name: the rows of rule $rule are served over HTTP") or diag($body);
        }
    }
    cmp_ok(time - $began, '<', 10, "$name: the rows arrive within 10 s of the new slot");
    $last = insert(1);
    $_->wait_row($last) for values %clients;
    pass("$name: later rows are delivered");
    is_deeply([ sort @{ $store->execute('SMEMBERS', $store->shared('members:GROUP:g')) } ], [qw(u1 u2)], "$name: the memberships are those of the server");
    return;
}

# The standby takes the address of the former primary.
sub promoted
{
    $standby->{_port} = $server->port;
    $standby->append_conf('postgresql.conf', "port = @{[ $server->port ]}\nprimary_conninfo = ''\nprimary_slot_name = ''\narchive_mode = off\n");
    unlink $standby->data_dir . '/standby.signal' or die "could not remove the file: $!";
    open my $signal, '>', $standby->data_dir . '/recovery.signal' or die "could not create the file: $!";
    close $signal;
    $standby->append_conf('postgresql.conf', "restore_command = 'false'\n");
    $standby->{base} = $server->{base} // $server;
    return $standby;
}

check_replaced('restore, while the relay connects in recovery',    2, restored('first', pause => 1), is_paused => 1);
check_replaced('promotion, to a timeline of the same number',      2, promoted());
check_replaced('restore, whose WAL has passed the undone changes', 2, restored('second', archive => 1), is_late => 1);
wait_until('the history is archived', sub { -e "$archive/00000002.history" });
check_replaced('restore, to a later timeline', 3, restored('third', history => 1));

# The server is replaced by an older copy of its files, with the slot.
my $client = $second->client('u1');
my $copy   = $server->basedir . '/copy';
my $last   = insert(1);
$client->wait_row($last);
$server->stop;
system('cp', '-a', $server->data_dir, $copy) == 0 or die 'could not copy the server';
$server->start;
$client->wait_row($last = insert(UNDONE));
$relay->stop;
$server->stop('immediate');
system('rm', '-rf', $server->data_dir) == 0 && rename($copy, $server->data_dir) or die 'could not replace the server';
$server->start;
$rows = sql('SELECT max(id) FROM t');
my $mark = $relay->log_mark;
$relay->start;
$relay->wait_for_log(qr/WAL ends before the store's progress/, from => $mark);
is($client->wait_for('gap')->{why}, 'epoch', 'older files: a connected client receives a gap');
$relay->wait_ready;
my $fresh = $second->client('u1');
$fresh->send({ t => 'rows', r => 7, source => 't' });
my $reply = $fresh->wait_for(sub { ($_[0]{r} // 0) == 7 });
is(scalar @{ $reply->{rows} // [] }, sql('SELECT count(*) FROM t'), 'older files: a client receives the rows') or diag(JSON::encode_json($reply));
$last = insert(1);
$fresh->wait_row($last);
pass('older files: later rows are delivered');
$_->stop for $relay, $second;

done_testing();
