# Tests an append-only file that a crash truncated within the transaction that added the first notification of the store. The second
# load adds that stream entry, and the relay removes it, since the notification is stored again: it was not trimmed, so a client
# that was connected before receives no gap.
use strict;
use warnings;

use Clairon::Test qw(wait_until);
use Test::More;

my $pg = Clairon::Test::postgresql('main');
$pg->safe_psql('postgres', q{
    CREATE TABLE t (id int PRIMARY KEY, owner text);
    SELECT clairon.watch('t', 'USER', 'owner', ack_required => true)});
my $store = Clairon::Test::store();
# Too few replicas are connected, so no LSN is confirmed, and PostgreSQL retains all WAL.
my $relay = Clairon::Test::relay($pg, $store, conf => { 'store.min_replicas' => 1 });

sub entries_of { my ($row) = @_; return grep { $_->{data} =~ /"after":\{"id":$row,/ } $store->entries }
sub insert { my ($row) = @_; $pg->safe_psql('postgres', "INSERT INTO t VALUES ($row, 'u1')"); wait_until("row $row is stored", sub { entries_of($row) }); return }

# Truncates the store's file behind the command that records the first stream entry.
sub cut_file
{
    my ($path) = (glob("$store->{folder}/appendonlydir/*.incr.aof"), glob("$store->{folder}/appendonly.aof"));
    open my $file, '+<:raw', $path or die "could not open $path: $!";
    local $/;
    my $bytes = <$file>;
    $bytes =~ /\r\nfirst\r\n\$\d+\r\n[\d-]+\r\n/g or die "no command records the first stream entry\n";
    truncate $file, pos($bytes) + 2 or die "could not cut $path: $!";
    close $file;
    return;
}

my $pos = $relay->client('u1')->pos;
insert(1);
$relay->kill9;
$store->kill9;
cut_file();
$store->start;
is($store->stored, 0, 'the store ignores the incomplete transaction');
$relay->start;
wait_until('the row is stored again', sub { entries_of(1) });
$store->kill9;
$store->start;
insert(2);
is(scalar(entries_of(1)), 1, 'the second load leaves the row once');

my $client = $relay->client('u1', pos => $pos);
$client->run_until('both rows arrive', sub { $client->notifications >= 2 });
ok($client->wait_for('connected')->{resumed}, 'a client that has read nothing resumes');
is($client->gaps, '', 'it receives no gap');

done_testing();
