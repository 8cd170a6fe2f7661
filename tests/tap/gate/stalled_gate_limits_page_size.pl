# Tests that a gate that was stopped reads many large notifications in small pages.
use strict;
use warnings;

BEGIN { $ENV{CLAIRON_TEST_SHARDS} = 1 }    # pages of several streams have fewer entries of each
use Clairon::Test qw(wait_until token);
use Clairon::Test::RawSocket;
use JSON ();
use Test::More;

use constant { MANY => 60, LARGE => 900_000 };

my $store  = Clairon::Test::store();
my $writer = Clairon::Test::relay(undef, $store, roles => 'gate');
my $gate = Clairon::Test::relay(undef, $store, roles => 'gate');
my $api = token(sub => 'api', publish => JSON::true);

sub publish
{
    my $notification = { payload => { text => 'x' x LARGE }, routing => { audience => { type => 'USER', targets => ['nobody'] } } };
    my $response = Clairon::Test::RawSocket->new($writer)->request(POST => '/v1/notifications', Authorization => "Bearer $api", ':body' => $notification);
    die "not accepted: $response->{status}\n" if $response->{status} != 201;
    return;
}
sub wait_read { my ($count) = @_; wait_until("$count notifications are read", sub { $gate->metric('clairon_hub_notifications_total') >= $count }); return }

# Returns the peak resident memory in kB.
sub peak_kb
{
    open my $file, '<', '/proc/' . $gate->pid . '/status' or die "no status: $!\n";
    my ($most) = map { /^VmHWM:\s+(\d+)/ } <$file>;
    return $most;
}

publish();
wait_read(1);
my $before = peak_kb();
kill STOP => $gate->pid;
publish() for 1 .. MANY;
kill CONT => $gate->pid;
wait_read(1 + MANY);
my $grown = peak_kb() - $before;
note("memory grew by $grown kB");
SKIP: {
    skip 'a sanitizer allocates additional memory', 1 if Clairon::Test::is_sanitized();
    cmp_ok($grown, '<', MANY * LARGE / 1024, 'large notifications are not read in one page');
}

# The store closes connections whose replies exceed its limit, so the gate reads smaller pages.
$store->execute('CONFIG', 'SET', 'client-output-buffer-limit', 'normal 3mb 0 0');
my $mark = $gate->log_mark;
kill STOP => $gate->pid;
publish() for 1 .. 10;
kill CONT => $gate->pid;
wait_read(1 + MANY + 10);
like($gate->log_text($mark), qr/level=warn .*connection lost before a reply: reading fewer entries/, 'the gate logs that it reads fewer entries');
wait_until('the gate is ready again', sub { ($gate->get('/readyz'))[0] == 200 });
publish();
wait_read(1 + MANY + 11);
pass('the gate reads later notifications');
$mark = $gate->log_mark;
kill STOP => $gate->pid;
publish() for 1 .. 5;
kill CONT => $gate->pid;
wait_read(1 + MANY + 16);
unlike($gate->log_text($mark), qr/component=store-reader .*connection lost/, 'the gate keeps the smaller size for the next burst');

# Even one notification exceeds this limit: the gate is not ready.
$store->execute('CONFIG', 'SET', 'client-output-buffer-limit', 'normal 300kb 0 0');
publish();
wait_until('the gate is not ready', sub { ($gate->get('/readyz'))[0] == 503 });
wait_until('it stays so', sub { ($gate->log_text($mark) =~ s/entries=1 //gr) ne $gate->log_text($mark) });
is(($gate->get('/readyz'))[0], 503, 'a gate that cannot read is not ready');
$store->execute('CONFIG', 'SET', 'client-output-buffer-limit', 'normal 0 0 0');
wait_read(1 + MANY + 17);
wait_until('the gate is ready again', sub { ($gate->get('/readyz'))[0] == 200 });
pass('the gate recovers');

# A connection works, but has no reply yet. The one before was lost before a reply.
my $late = Clairon::Test::delayed_replies($store->{socket});
my $waiting = Clairon::Test::relay(undef, $late, roles => 'gate');
for (1, 2)
{
    $late->hold(page => '^XREAD ');
    $late->cut_link('^XREAD ');
    $late->wait_held('page');
}
is(($waiting->get('/readyz'))[0], 503, 'a gate is not ready before the first reply after such a loss');
$late->release('page');
wait_until('the gate is ready', sub { ($waiting->get('/readyz'))[0] == 200 });
is($_->stop, 0, 'SIGTERM ends the relay with status 0') for $writer, $gate, $waiting;

done_testing();
