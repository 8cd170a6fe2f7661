# Tests that a gate that was stopped reads many large notifications in small pages.
use strict;
use warnings;

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
is($_->stop, 0, 'SIGTERM ends the relay with status 0') for $writer, $gate;

done_testing();
