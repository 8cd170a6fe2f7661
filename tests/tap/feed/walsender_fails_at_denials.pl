# Tests that a walsender that is killed, or has no disk space, within a large transaction with denials loses no row of
# another owner, and that clairon.status counts each denied notification once: while it streams, spills, or sends.
use strict;
use warnings;

use Clairon::Test qw(wait_until);
use Clairon::Test::Neighbour;
use Test::More;

my ($RULES, $BYTES, $SPACE) = (2, 1000, 17_000_000);    # a file may have $SPACE bytes when the disk is full: more than a WAL segment

my $pg = Clairon::Test::postgresql('main', conf => "autovacuum = off\nlogical_decoding_work_mem = 64kB\n");
my $store     = Clairon::Test::store();
my $relay     = Clairon::Test::relay($pg, $store, conf => { 'feed.owner_bytes' => '1MB', 'feed.owner_wal_factor' => 1, 'feed.owner_time' => '1h' });
my $neighbour = Clairon::Test::Neighbour->new($pg, $relay, store => $store);

sub sql { return $pg->safe_psql('postgres', $_[0]) }
sub session { return Clairon::Test::Query->connect($pg->host, $pg->port, 'postgres') // die "could not connect\n" }

sql('GRANT clairon_app TO alice');
$neighbour->run_as('alice', q{CREATE TABLE alice.large (id int, owner text, s text); SELECT clairon.watch('alice.large', 'USER', 'owner')});

# Each case has an owner with a full account, so that the account denies the same changes when they are decoded again.
my %rows;
sub create
{
    my ($owner) = @_;
    sql("CREATE ROLE $owner LOGIN; CREATE SCHEMA $owner AUTHORIZATION $owner");
    $neighbour->run_as($owner, "CREATE TABLE $owner.t (id int, owner text, s text); SELECT clairon.watch('$owner.t', 'USER', 'owner', name => 'r' || i) FROM generate_series(1, $RULES) AS i");
    return;
}

# Statements that insert rows of the owner, and then rows of alice.
sub rows
{
    my ($owner, $count, $alices, $bytes) = @_;
    $bytes //= $BYTES;
    $rows{$owner}{own}   += $count;
    $rows{$owner}{alice} += $alices;
    return "INSERT INTO $owner.t SELECT i, 'u', repeat('m', $bytes) FROM generate_series(1, $count) AS i;
        INSERT INTO alice.large SELECT i, 'u', repeat('$owner ', $BYTES / 8) FROM generate_series(1, $alices) AS i";
}

# The number of this owner's notifications, and of alice's in the same transactions, in the store.
sub stored
{
    my ($owner) = @_;
    my @data = map { $_->{data} } $store->entries;
    return { own => scalar(grep { /"source":"$owner\.t"/ } @data), alice => scalar(grep { /"source":"alice\.large"/ && /"s":"$owner / } @data) };
}

sub denied
{
    my ($owner) = @_;
    return sql(qq{SELECT coalesce(sum(changes), 0) FROM clairon.status, jsonb_to_recordset(denied) AS d (owner name, changes bigint) WHERE owner = '$owner'});
}

sub walsender { return wait_until('the slot is active', sub { sql(q{SELECT active_pid FROM pg_replication_slots WHERE active}) }) }

sub restart_killed
{
    my ($pid) = @_;
    kill 'KILL', $pid;
    wait_until('the server has stopped', sub { !-e $pg->data_dir . '/postmaster.pid' });
    $pg->_update_pid(0);
    $pg->start;
    return;
}

sub is_complete
{
    my ($owner, $what) = @_;
    $neighbour->delay_of_row;
    Clairon::Test::wait_confirmed($pg);    # the row above may be in another shard
    my $stored = stored($owner);
    is($stored->{alice}, $rows{$owner}{alice}, "$what: each row of the neighbour is stored once");
    my $denied = $RULES * $rows{$owner}{own} - $stored->{own};
    cmp_ok($denied, '>', 0, "$what: changes are denied");
    cmp_ok($stored->{own}, '>', 0, "$what: not all");
    wait_until("$what: the denials are reported", sub { denied($owner) >= $denied });
    is(denied($owner), $denied, "$what: each denied change is counted once");
    return;
}

# ---- killed

create('streamed');
my $session = session();
$session->run('BEGIN; ' . rows('streamed', 3000, 1000));
my $spooled = 'SELECT coalesce(sum(size), 0) FROM pg_ls_tmpdir()';
wait_until('changes are streamed', sub { sql($spooled) > 500_000 });
my $walsender = walsender();
kill 'STOP', $walsender;
$session->run(rows('streamed', 3000, 1000) . '; COMMIT');
restart_killed($walsender);
is_complete('streamed', 'killed while changes are streamed');

for my $case ([ rendered => '' ], [ spilled => 'CREATE TABLE other (id int);' ])
{
    my ($owner, $first) = @$case;
    create($owner);
    $neighbour->delay_of_row;
    kill 'STOP', $relay->pid;
    sql("BEGIN; $first" . rows($owner, 6000, 6000) . '; COMMIT');
    $walsender = walsender();
    wait_until('the walsender waits for the relay', sub { sql("SELECT wait_event FROM pg_stat_activity WHERE pid = $walsender") eq 'WalSenderWriteData' });
    restart_killed($walsender);
    kill 'CONT', $relay->pid;
    is_complete($owner, "killed while $owner changes are sent");
}

# ---- a full disk

sub limit_files
{
    my ($bytes) = @_;
    system('prlimit', "--fsize=$bytes:", '--pid', $_) == 0 or die "prlimit failed\n" for $pg->{_pid}, walsender();
    return;
}

for my $case ([ streamed_full => '', 3000, 20_000, $BYTES ], [ spilled_full => 'CREATE TABLE another (id int);', 250_000, 2000, 8 ])
{
    my ($owner, $first, $count, $alices, $bytes) = @$case;
    create($owner);
    $neighbour->delay_of_row;
    my $writer = session();
    $writer->run('SELECT 1');
    limit_files($SPACE);
    my $mark = $relay->log_mark;
    $writer->run("BEGIN; $first" . rows($owner, $count, $alices, $bytes) . '; COMMIT');
    $relay->wait_for_log(qr/could not write.*File too large.*retry_s=/, from => $mark);
    is(stored($owner)->{alice}, 0, "$owner: nothing is stored without space");
    system('prlimit', '--fsize=unlimited:', '--pid', $pg->{_pid}) == 0 or die "prlimit failed\n";
    is_complete($owner, "$owner: with space again");
}
done_testing();
