# Tests a client with a full in-flight window that resumes on a relay which has read less of the stream than the client: it receives
# the notifications that the window held back, which another device has acknowledged meanwhile.
use strict;
use warnings;

use Clairon::Test qw(wait_until);
use Test::More;

use constant HELD_BACK => 80;    # more than the store lists as ended pairs of a user, so that the relay reads them from the stream

my $pg = Clairon::Test::postgresql('main');
$pg->safe_psql('postgres', q{
    CREATE TABLE required (id int PRIMARY KEY, owner text);
    CREATE TABLE plain (id int PRIMARY KEY, owner text);
    SELECT clairon.watch('required', 'USER', 'owner', ack_required => true);
    SELECT clairon.watch('plain', 'USER', 'owner')});
my $store = Clairon::Test::store();
my $proxy = Clairon::Test::delayed_replies($store->{socket});
my $relay = Clairon::Test::relay($pg, $store, conf => { 'delivery.ack_timeout' => '1h' });
my $late  = Clairon::Test::relay(undef, $proxy, roles => 'gate', conf => { 'delivery.ack_timeout' => '1h' });

sub insert { my ($table, $owner, $first, $last) = @_; return $pg->safe_psql('postgres', sprintf "INSERT INTO $table SELECT i, '$owner' FROM generate_series(%d, %d) i", $first, $last // $first) }
sub rows_of { my ($client, $table) = @_; return map { $_->{payload}{after}{id} } grep { $_->{metadata}{source} eq $table } $client->notifications }

my ($phone, $laptop) = ($relay->client('u1', win => 1), $relay->client('u1', win => 64));
insert(required => 'u1', 1);
$_->run_until('the first row arrives', sub { rows_of($_, 'required') }) for $phone, $laptop;

# The late relay reads no further: the next reply contains a heartbeat.
$proxy->hold(stream => '^XREAD ');
$proxy->wait_held('stream');
insert(required => 'u1', 2, 1 + HELD_BACK);
$laptop->run_until('the other device has received and acknowledged all', sub {
    my @ids = map { $_->{metadata}{id} } grep { $_->{payload}{after}{id} > 1 && $_->{metadata}{source} eq 'required' } $laptop->notifications;
    $laptop->send_now({ t => 'ack', ids => [ @ids[ ($laptop->{acked_ids} // 0) .. $#ids ] ] }) if @ids > ($laptop->{acked_ids} // 0);
    return ($laptop->{acked_ids} = @ids) == HELD_BACK;
});
wait_until('the acknowledgements are stored', sub { $store->pending == 1 });
insert(plain => 'u1', 100);
$phone->run_until('the last row arrives', sub { rows_of($phone, 'plain') });
is(join(' ', rows_of($phone, 'required')), '1', 'the full window holds the other rows back');
$phone->abort;

my $resumed = $late->client('u1', pos => $phone->pos, win => 64);
Clairon::Test::Client::run_for(0.5);
$proxy->release('stream');
my $all = eval { $resumed->run_until('all rows arrive', sub {
    my %received = map { $_ => 1 } rows_of($resumed, 'required');
    return !grep { !$received{$_} } 1 .. 1 + HELD_BACK }); 1 };
ok($all, 'the client receives what was held back');
is($resumed->gaps, '', 'it receives no gap');

done_testing();
